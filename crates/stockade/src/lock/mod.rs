//! Locks as users hold them: requests, guards, fences, renewal and the signal of loss.

mod cadence;
mod fence;
mod guard;
mod held;
mod lane;
mod locks;
mod multi;
mod outcome;
mod renewal;
mod renewer;
mod request;
mod run_error;
mod shared;
mod terms;
#[cfg(test)]
mod tests;

pub use fence::Fence;
pub use guard::Guard;
pub use locks::{Locks, LocksBuilder};
pub use multi::{MultiFence, MultiGuard, MultiRequest};
pub use request::LockRequest;
pub use run_error::RunError;

pub use crate::store::{Force, Forced, Inspection, LockError, LossReason, Mode, Party, Released, Token, Unavailable};
