//! The events of the locks, for the console. Each instance keeps a log of its own, and writes it to Redis for the
//! others while somebody reads.

mod entry;
mod events;
mod log;
mod page;

use self::events::Events;
pub use self::log::LockLog;
pub(super) use self::page::events;
