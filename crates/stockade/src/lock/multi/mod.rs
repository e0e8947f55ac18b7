//! Exclusive locks on several resources, all or nothing.
//!
//! - There is one order of all resources, by bucket and encoded key. Everybody asks in that order, so nobody who waits
//!   for a resource holds one behind it, and no circle of waits can close.
//! - First the store is asked for all of them in one step, which takes them only where all are free and nobody waits.
//!   Otherwise each is asked for in its turn with what is left of the wait, as if it were the only one: it queues, and
//!   is served in order.
//! - What is held already is renewed while the rest is waited for. Whatever ends the attempt, a refusal, the end of the
//!   wait, the loss of a resource or a dropped future, gives back what is held, the last one first.

mod acquire;
mod fence;
mod guard;
mod held_set;
mod request;

pub use fence::MultiFence;
pub use guard::MultiGuard;
pub use request::MultiRequest;
