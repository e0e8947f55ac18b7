//! A value in memory, and how it is written in Redis.

mod codec;
mod compression;
mod entry;
mod envelope;

pub use codec::Codec;
pub use compression::Compression;
pub(crate) use entry::Entry;
pub(crate) use envelope::{Envelope, Unreadable};
