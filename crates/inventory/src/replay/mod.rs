//! `inventory replay`: order lines sent to running instances, and a report.
//!
//! Every line is one adjustment with an idempotency key of its own, so that an attempt whose answer was lost can be
//! made again: on the next instance, with the same key. Between the lines come reads, so that the cache has work too.

mod answer;
mod args;
mod audit;
mod cache_status;
mod client;
mod command;
mod journal;
mod progress;
mod reason;
mod report;
mod report_text;
mod retry;
mod run;
mod scrape;
mod tally;

pub use args::{Args, ReportFormat};
pub use audit::AuditError;
pub use cache_status::Source;
pub use command::run;
pub use journal::{Journal, JournalError};
pub use report::{Latency, Lines, ReadSources, Report};
pub use retry::RetryLimits;
pub use run::{Plan, Replay, ReplayError, replay};
pub use scrape::{Counters, ScrapeError};
pub(crate) use tally::Latencies;
pub use tally::Reads;
#[cfg(feature = "demo")]
pub(crate) use {args::not_negative, client::ShopClient, tally::Tally};

pub use crate::conservation::Verdict;
