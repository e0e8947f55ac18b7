//! Fetching a value that no tier has: the lease, the load under it, and what becomes of a load that failed.

mod failed_load;
mod one;
mod together;

pub(crate) use failed_load::Loads;
pub(crate) use one::{Leased, Missing, POLL, Start, unstored, until_news};
pub(crate) use together::Flyer;
