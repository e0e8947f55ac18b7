//! The circuit breaker in front of a store or a database.

mod circuit;
mod permit;
mod series;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use circuit::Breaker;
pub(crate) use permit::Permit;
