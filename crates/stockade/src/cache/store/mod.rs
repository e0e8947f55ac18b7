//! The store behind the in-process tier. It keeps the values of all processes, and decides which load may store.

mod cache_store;
mod first_attempt;
mod memory;
mod outcomes;
mod redis;
mod reply;
mod some_at_a_time;
mod token;
mod trust;
mod wake;

pub(crate) use cache_store::Store;
pub(crate) use first_attempt::FirstAttempt;
pub(crate) use memory::Memory;
#[cfg(feature = "postgres")]
pub(crate) use outcomes::Fault;
pub(crate) use outcomes::{NotTaken, Outcomes};
pub(crate) use redis::Remote;
pub(crate) use reply::{Filled, Filling, Hold, Lease, Read, Want};
pub(crate) use some_at_a_time::some_at_a_time;
pub(crate) use token::Token;
pub(crate) use trust::{HEARD_WITHIN, OLD_PRIMARY_WRITES, REPEATABLE, SILENCE, Trust, UnsureRun};
pub(crate) use wake::{POLL, Wake, Wakes, until_news};
