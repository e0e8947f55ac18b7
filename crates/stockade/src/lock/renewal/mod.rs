//! Renews the leases of guards, and watches their deadlines.
//!
//! - [`Renewals`]: all ownerships of one `Locks`, in one queue with one task.
//! - [`queue`]: the ownerships, by the time of their next event; [`entry`]: one of them.
//! - [`schedule`]: when a lease is renewed. [`batch`]: the renewals that go out together, to one shard of the store.
//! - [`task`]: waits for the next event, and sends the renewals.

mod batch;
mod entry;
mod queue;
mod renewals;
mod schedule;
mod task;

pub(super) use renewals::{Renewal, Renewals};
