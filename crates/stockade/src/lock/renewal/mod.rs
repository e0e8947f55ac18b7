//! Renews what guards hold, and watches its deadlines.
//!
//! - [`Renewals`]: all ownerships of one `Locks`, a queue for each shard of the store.
//! - [`queue`]: those on one shard, in the order in which something is to be done about them; [`entry`]: one of them.
//! - [`schedule`]: when a lease is renewed. [`batch`]: the renewals that go out together.
//! - [`task`]: waits for what is due, and sends it.

mod batch;
mod entry;
mod queue;
mod renewals;
mod schedule;
mod task;

pub(super) use renewals::{Renewal, Renewals};
