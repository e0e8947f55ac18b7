//! `inventory lab`: one SKU, the same load, and every usual way to keep its stock right, side by side.
//!
//! Each scheme sells the same stock from a table (or a counter in Redis) of its own, in several processes at once. What
//! the buyers were told is then compared with what is left. The schemes are written to be read: each file of
//! `schemes` is one of them, whole, with what is wrong with it.

mod args;
mod carrier;
mod chart;
mod counts;
mod dialogue;
mod part;
mod run;
mod sale;
mod scheme;
mod schemes;
mod stage;
mod stops;
mod table;
mod tally;
mod worker;
mod world;

pub use args::Args;
pub use run::run;
pub use worker::work;

type Failure = Box<dyn std::error::Error + Send + Sync>;
