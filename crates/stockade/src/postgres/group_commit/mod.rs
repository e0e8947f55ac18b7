//! Group commit: changes under different locks that share a transaction.

mod failure;
mod handle;
mod queue;
mod settle;
mod tally;
mod write;

pub use handle::GroupCommit;
#[cfg(test)]
pub(super) use queue::Limits;
pub use write::GroupWrite;
