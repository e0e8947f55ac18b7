//! The attack lab: what happens to a database behind a cache when it goes wrong, with the defences of Stockade and
//! without them, side by side.
//!
//! An attack runs both sides at the same time, on a table and keys of its own and on connections of its own: the
//! service's data and pools are not touched. There is one at a time in an instance, it ends by itself, and it can be
//! stopped. It is there only while `LAB` is on. What harms a Redis happens to one that the attack starts for itself.

mod avalanche;
mod breakdown;
mod callers;
mod desk;
mod error;
#[cfg(feature = "demo")]
mod flushed_redis;
#[cfg(feature = "demo")]
mod frozen_redis;
mod goods;
mod ground;
mod guarded;
mod item;
#[cfg(feature = "demo")]
mod killed;
mod kind;
#[cfg(feature = "demo")]
mod lab_process;
mod last_unit;
mod meter;
mod naive;
#[cfg(feature = "demo")]
mod outage;
#[cfg(feature = "demo")]
mod own_redis;
mod penetration;
mod place;
#[cfg(feature = "demo")]
mod restarted_redis;
mod run;
mod slow;
mod stopped;
mod verdict;

pub(crate) use callers::Callers;
pub use desk::Attacks;
pub(crate) use error::AttackError;
#[cfg(feature = "demo")]
pub(crate) use killed::{HELD, take_locks};
pub use kind::Attack;
pub(crate) use kind::Described;
pub(crate) use place::Place;
pub(crate) use run::{Moment, Report};
