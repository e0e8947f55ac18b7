//! The parts of a report.

mod fleet;
mod latency;
mod lines;
mod read_sources;

pub use fleet::Fleet;
pub use latency::Latency;
pub use lines::Lines;
pub use read_sources::ReadSources;
