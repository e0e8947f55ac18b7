//! The circuit breaker in front of a store or a database.

mod circuit;
mod permit;
mod quorum;
mod series;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use circuit::Breaker;
pub(crate) use permit::Permit;
#[cfg(feature = "redlock")]
pub(crate) use quorum::Quorum;
