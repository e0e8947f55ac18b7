//! The attack lab: what happens to a database behind a cache when it goes wrong, with the defences of Stockade and
//! without them, side by side.
//!
//! An attack runs both sides at the same time, on a table, keys and connections of its own: it does not touch the
//! service's data and pools. All instances together run one attack at a time, and only while `LAB` is on. An attack ends
//! by itself, and can be stopped. An attack that harms a Redis starts that Redis itself.

mod callers;
mod desk;
mod error;
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
mod place;
mod reads;
mod run;
mod stopped;
mod turn;
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
