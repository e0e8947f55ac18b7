//! The lease protocol on Redis: keys, scripts, the invalidation subscription.
//!
//! It uses a routed link, as locks do: a key is looked up on the server of its bucket. But a cache can have only one
//! server so far. The table of tags, the run marker and the epoch are keys of the first bucket, heartbeats are sent by
//! its server, and one channel serves all buckets.

mod dropping;
mod inspect;
mod keys;
mod leasing;
mod liveness;
mod remote;
mod reply;
mod scripts;
mod sequences;
mod stored;
mod subscription;
mod tag_stamp;
mod tasks;
#[cfg(test)]
mod tests;
mod write_probe;

pub(crate) use remote::Remote;
