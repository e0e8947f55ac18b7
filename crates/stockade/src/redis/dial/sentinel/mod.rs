//! Asks the sentinels where the primary is, and listens for failovers.

mod address;
mod listening;
mod sentinels;

pub(super) use address::Address;
pub(super) use sentinels::Sentinels;
