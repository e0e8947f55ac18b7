//! The lock as a layer: every promise of its table, tested by the public API.

mod attach;
#[cfg(feature = "postgres")]
mod commit;
mod handler;
mod keys;
mod outage;
mod permits;
mod refusals;
mod response;
mod several;
mod support;
mod unlocked;
mod upload;
mod write_error;
