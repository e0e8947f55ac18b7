//! Claims: a transaction under a lock begins with the fence rows of its resources.

mod args;
mod fence;
mod forced;
mod last;
mod several;

pub use args::ClaimArgs;
pub use forced::claim_forced;
