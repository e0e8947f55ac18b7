//! Writes that are announced before they commit, and what becomes of announcements whose writer died.

mod fates;
mod intent;
mod sweep;

pub(crate) use fates::Strict;
#[cfg(feature = "postgres")]
pub(crate) use fates::{Fates, Relayed};
pub(crate) use intent::{Intent, OVERDUE};
pub(crate) use sweep::PAGE;
