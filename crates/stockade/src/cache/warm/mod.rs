//! Loading keys before they are asked for.

mod chunk;
mod progress;
mod warmup;

pub use progress::{WarmProgress, WarmReport, WarmState};
pub use warmup::Warmup;
