//! The in-process tier: values kept in the memory of the process.

mod entries;
#[cfg(test)]
mod tests;
mod tier;

pub(crate) use tier::{Local, Reservation};
