//! `inventory lab`: every scheme, one after the other, in several processes at once, on private servers.

mod args;
mod carrier;
mod chart;
mod counts;
mod part;
mod run;
mod setting;
mod stage;
mod table;
mod tally;
mod worker;

pub use args::Args;
pub use run::run;
pub use worker::work;

use super::{Failure, dialogue, sale, scheme, shelf, stops::Stops, world};
