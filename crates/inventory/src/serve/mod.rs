//! `inventory serve`, `inventory migrate` and `inventory filter`.

mod build;
mod database;
mod error;
pub(crate) mod filter;
mod lock_store;
mod log;
mod migrate;
mod port;
mod rebuild;
mod redis;
mod run;
mod signals;
mod sweep;
mod warm;

pub use crate::config::{Args, DatabaseArgs};
pub use error::StartError;
pub use migrate::migrate;
pub use rebuild::{FilterArgs, rebuild_filter};
pub use run::{run, run_with};
