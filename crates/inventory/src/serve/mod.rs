//! `inventory serve` and `inventory migrate`.

mod build;
mod database;
mod error;
mod log;
mod migrate;
mod port;
mod run;
mod signals;
mod sweep;
mod warm;

pub use crate::config::{Args, DatabaseArgs};
pub use error::StartError;
pub use migrate::migrate;
pub use run::{run, run_with};
