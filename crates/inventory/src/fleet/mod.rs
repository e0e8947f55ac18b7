//! The list of the instances. Each announces itself in the Redis of the locks, with the address of its operators' port,
//! so that a console sees all of them.

mod announcer;
mod logs;
mod member;

pub(crate) use announcer::Fleet;
pub use announcer::{Announcer, join};
pub(crate) use member::{LEASE, MOST, Member, authority};
