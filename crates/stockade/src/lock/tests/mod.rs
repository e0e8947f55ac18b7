//! Guards, renewal and shutdown, on the memory store and on stores that misbehave.

mod delegation;
mod downgrade;
mod events;
mod guard;
mod handover;
mod metrics;
mod multi;
#[cfg(feature = "redlock")]
mod redlock;
mod renewal;
mod run;
mod shutdown;
mod support;
