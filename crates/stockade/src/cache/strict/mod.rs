//! Writes that are announced before they commit, and what becomes of announcements whose writer died.

mod intent;
mod sweep;

#[cfg(test)]
pub(crate) use intent::OVERDUE;
#[cfg(feature = "postgres")]
pub(crate) use intent::{Fates, Relayed};
pub(crate) use intent::{Intent, Intents, Strict};
