//! A Bloom filter in Redis: which ids exist, so that reads of those that never did cost the database nothing.
//!
//! ```no_run
//! # use std::{borrow::Cow, convert::Infallible};
//! # use stockade::{Cache, Redis, Resource, cache::Bloom};
//! # #[derive(Clone)]
//! # struct Sku(String);
//! # impl Resource for Sku {
//! #     const KIND: &'static str = "stock";
//! #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
//! # }
//! # fn all_skus() -> impl futures_util::Stream<Item = Result<Sku, Infallible>> + Send + 'static { futures_util::stream::empty() }
//! # async fn load(sku: Sku) -> Result<Option<u64>, Infallible> { Ok(None) }
//! # fn example(redis: &Redis) {
//! let known = Bloom::builder::<Sku>(redis).expected(1_000_000).false_positives(0.01).source(all_skus).build();
//! let stocks = Cache::<Sku, u64>::builder(redis).bloom(&known).loader(load).build();
//! # }
//! ```
//!
//! # When it may say "absent"
//!
//! Only if it is complete without a doubt. The filter is ignored, and every id is looked up, in four cases: it is
//! missing, it is being built for the first time, it was evicted, or it is from an earlier run of the server (a replica
//! that was promoted may lack the newest bits). One process of the fleet then builds it again from its source.
//!
//! A server that rejects writes gives no answer either: it may be an old primary that was cut off and replaced. Only a
//! server with `min-replicas-to-write` rejects writes in that case. Behind sentinels, a strict cache therefore believes
//! "absent" only where that setting is set. Until the old primary rejects writes, other processes may still add ids
//! there. A filter behind sentinels, or on a server with that setting, is therefore built 13 seconds after the
//! connection was made at the earliest. By then all ids that were added elsewhere are in the source, if the source
//! waits for `postgres::settled` (feature `postgres`).
//!
//! A row's id is added *before* the row commits; `postgres::Tx::add` (feature `postgres`) does that. An id whose
//! transaction rolls back is a false positive and does no harm. While the next filter is built, ids are added to both
//! filters. The source must not miss a transaction that added its id only to the old filter and has not committed yet:
//! the source waits for such transactions with `postgres::settled`.
//!
//! # Building it again
//!
//! [`Bloom::rebuild`] builds the next filter while the present one answers, for instance to remove ids whose rows were
//! deleted. [`Bloom::resize`] gives the filter the size that this process was built with, and [`Bloom::clear`] empties
//! it. After these two every id passes until a process has built the filter from its source. An id that is added
//! meanwhile is in the new filter.
//!
//! The size follows from the expected number of keys n and the rate of false positives p (Bloom, "Space/Time Trade-offs
//! in Hash Coding with Allowable Errors", CACM 1970). The filter has m = -n·ln p/(ln 2)² bits, and each key sets
//! m/n·ln 2 of them. The bits of a key come from a 128-bit hash with a secret key (SipHash), so that nobody outside can
//! choose ids that collide.

mod builder;
mod filter;
mod geometry;
mod keeper;
mod scripts;
mod server;
mod shared;
#[cfg(test)]
mod tests;

pub use builder::BloomBuilder;
pub use filter::{Bloom, BloomStats};
