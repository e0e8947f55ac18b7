//! Where values live besides the in-process tier, and who decides which load may store.

mod cache_store;
#[cfg(feature = "redis")]
mod first_attempt;
mod memory;
#[cfg(feature = "redis")]
mod redis;
mod some_at_a_time;
mod wake;

#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) use cache_store::LINGER;
#[cfg(feature = "redis")]
pub(crate) use cache_store::SILENCE;
pub(crate) use cache_store::{
    Assurance, Filled, Filling, HEARD_WITHIN, Hold, Lease, Read, Store, Token, UnsureRun, Want,
};
#[cfg(feature = "redis")]
pub(crate) use first_attempt::FirstAttempt;
pub(crate) use memory::Memory;
#[cfg(feature = "redis")]
pub(crate) use redis::Remote;
pub(crate) use some_at_a_time::some_at_a_time;
pub(crate) use wake::{Wake, Wakes};
