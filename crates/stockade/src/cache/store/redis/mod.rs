//! The lease protocol on Redis: keys, scripts, the invalidation subscription.

mod dropping;
mod keys;
mod leasing;
mod remote;
mod reply;
mod scripts;
mod stored;
mod subscription;
mod tag_stamp;
mod tasks;
#[cfg(test)]
mod tests;
mod write_probe;

pub(crate) use remote::Remote;
