//! The lease protocol on Redis: keys, scripts, the invalidation subscription.

mod beat;
mod bound;
mod keys;
mod pulse;
mod remote;
mod reply;
mod scripts;
mod stored;
mod subscription;
mod tag_stamp;
#[cfg(test)]
mod tests;
mod vouched;

pub(super) use remote::Remote;
