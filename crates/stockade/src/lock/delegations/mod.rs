//! Read delegation: one shared ownership of a resource for all readers of this process, kept until somebody else wants
//! it.
//!
//! A reader that finds a live [`delegation`] in the table of [`table`] enters by one atomic step: nothing is sent, and
//! neither a task nor a timer is made. Otherwise the readers of the process share one ordinary attempt ([`joined`]),
//! whose task then keeps what it got ([`keeper`]). Whether a delegation pays is decided by counts ([`policy`]).
//!
//! A delegation is live from a grant that nobody waited for, on a connection that brings the messages of the store. It
//! is recalled once and for good: by a message of the store, a renewal that says that somebody waits, an exclusive
//! attempt of the same locks, the loss of the connection or of the lease, disuse, age and shutdown. From then on nobody
//! enters, and the last reader sends the release.

mod delegation;
mod joined;
mod keeper;
mod policy;
mod share;
mod table;

pub(super) use delegation::Inside;
pub(super) use table::{Delegations, Settings};
