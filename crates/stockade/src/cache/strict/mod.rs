//! Writes that are announced before their COMMIT, and how announcements (intents) end if the writer died.

mod fates;
mod intent;
mod sweep;

pub(crate) use fates::Strict;
#[cfg(feature = "postgres")]
pub(crate) use fates::{Fates, Relayed};
pub(crate) use intent::Intent;
pub(crate) use sweep::PAGE;
