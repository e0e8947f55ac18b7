//! Where values live besides the in-process tier, and who decides which load may store.

mod cache_store;
mod first_attempt;
mod memory;
mod redis;
mod some_at_a_time;
mod wake;

pub(crate) use cache_store::{
    Assurance, Filled, Filling, HEARD_WITHIN, Hold, LINGER, Lease, Read, SILENCE, Store, Token, UnsureRun, Want,
};
pub(crate) use first_attempt::FirstAttempt;
pub(crate) use memory::Memory;
pub(crate) use redis::Remote;
pub(crate) use some_at_a_time::some_at_a_time;
pub(crate) use wake::{Wake, Wakes};
