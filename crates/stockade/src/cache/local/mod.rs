//! The memory of the process.

mod entries;
#[cfg(test)]
mod tests;
mod tier;

pub(crate) use tier::{Local, Reservation};
