//! The configuration: flags and environment variables, read once, checked, and handed on as values.

mod args;
mod budget;
mod cache;
mod database;
mod error;
pub(crate) mod parse;
mod redis;
mod secret;
mod settings;

pub use args::{Args, DatabaseArgs};
pub use cache::{CacheMode, CacheSettings};
pub use database::Database;
pub use error::{ConfigError, ConfigErrors, EX_CONFIG};
pub(crate) use redis::quorum;
pub use secret::{Secret, shown_url};
pub use settings::{Config, Connections, LockSettings, LogFormat};
