//! Fetching a value that no tier has: the lease, the load under it, and what becomes of a load that failed.

mod attempt;
mod failed_load;
mod leased_load;
mod next_step;
mod one;
mod start;
mod together;
mod unleased_load;

pub(crate) use failed_load::Loads;
pub(crate) use next_step::{Permit, Purpose, Step};
pub(crate) use start::{Leased, Missing, Start};
pub(crate) use together::Flyer;
