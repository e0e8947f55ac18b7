//! `inventory serve`, `inventory migrate`, `inventory filter`, and the process that an attack of the lab kills.

mod build;
mod database;
mod error;
pub(crate) mod filter;
#[cfg(feature = "demo")]
mod hold;
mod lock_store;
mod log;
mod migrate;
mod open_files;
mod port;
mod rebuild;
mod redis;
mod run;
mod sweep;
mod warm;

pub use crate::config::{Args, DatabaseArgs};
pub use error::StartError;
#[cfg(feature = "demo")]
pub use hold::hold_locks;
pub use migrate::migrate;
pub use rebuild::{FilterArgs, rebuild_filter};
pub use run::{run, run_with};
