//! `inventory demo`: private servers, two instances, real order lines, a report, checks, and visitors until the end.
//!
//! Everything runs on free ports of 127.0.0.1, keeps its files in private folders, and ends with this process, however
//! that ends.

mod args;
mod error;
mod instance;
mod run;
mod traffic;
mod verify;

pub use args::Args;
pub use run::run;

use error::DemoError;
