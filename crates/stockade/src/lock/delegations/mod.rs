//! Read delegation: one shared ownership of a resource for all readers of this process, kept until a writer or another
//! process wants the resource.
//!
//! A reader that finds a live [`delegation`] in the [`table`] enters by one atomic step. Nothing is sent, and no task
//! or timer is created. Otherwise the readers of the process share one ordinary attempt ([`joined`]). The task of the
//! attempt then keeps the ownership ([`keeper`]). Counts decide whether a delegation pays ([`policy`]).
//!
//! A delegation is live if, at its grant, nobody else waited and the connection delivered the messages of the store. It
//! is recalled once and for good, by the first of these:
//!
//! - a message of the store, or a renewal whose reply says that another process waits
//! - an exclusive attempt of the same locks
//! - the loss of the connection or of the lease
//! - disuse, age, or shutdown
//!
//! After the recall no reader enters, and the last reader sends the release.

mod delegation;
mod joined;
mod keeper;
mod policy;
mod share;
mod table;

pub(super) use delegation::Inside;
pub(super) use table::{Delegations, Settings};
