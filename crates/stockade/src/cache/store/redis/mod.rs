//! The lease protocol on Redis: keys, scripts, the invalidation subscription.
//!
//! It stands on a routed link, as locks do, and asks the server of a bucket for what is in the bucket. The table of
//! tags, the run marker, the epoch and the heartbeat are keys of the first bucket, and the channel is one for all
//! buckets: that is why a cache has one server so far.

mod dropping;
mod keys;
mod leasing;
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
