//! Locks as users hold them: requests, guards, fences, renewal and the signal of loss.

mod fence;
mod guard;
mod locks;
mod request;

pub use fence::Fence;
pub use guard::Guard;
pub use locks::{Locks, LocksBuilder};
pub use request::LockRequest;

pub use crate::store::{Force, Forced, Inspection, LockError, LossReason, Mode, Party, Released, Token, Unavailable};
