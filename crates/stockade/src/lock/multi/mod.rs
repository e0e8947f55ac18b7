//! Exclusive locks on several resources, all or nothing.
//!
//! - All processes ask for resources in one order, by bucket and encoded key. A process that waits for a resource holds
//!   none that comes later in this order, so no circle of waits can form.
//! - The first request asks the store for all of them in one step. It succeeds only if all are free and nobody waits.
//!   Otherwise each is requested in turn, with what is left of the wait, like a single lock: it queues and is served in
//!   order.
//! - Locks that are already held are renewed while the attempt waits for the rest. If the attempt ends early (a
//!   refusal, the end of the wait, a loss, or a dropped future), the held locks are given back, the last one first.

mod acquire;
mod fence;
mod guard;
mod held_set;
mod request;

pub use fence::MultiFence;
pub use guard::MultiGuard;
pub use request::MultiRequest;
#[cfg(feature = "postgres")]
pub(crate) use request::order;
