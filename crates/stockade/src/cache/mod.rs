//! Cache-aside: values of the database kept in Redis and in the memory of the process, loaded once and never stale.
//!
//! ```
//! # use std::{borrow::Cow, convert::Infallible, time::Duration};
//! # use stockade::{Cache, Resource};
//! #[derive(Clone)]
//! struct Sku(String);
//!
//! impl Resource for Sku {
//!     const KIND: &'static str = "stock";
//!     fn id(&self) -> Cow<'_, str> {
//!         Cow::Borrowed(&self.0)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), stockade::cache::CacheError> {
//! let stocks = Cache::<Sku, u64>::memory() // or Cache::builder(&redis)
//!     .ttl(Duration::from_secs(300)..=Duration::from_secs(600))
//!     .loader(|sku: Sku| async move { Ok::<_, Infallible>((sku.0 == "85123A").then_some(7)) })
//!     .build();
//! let found = stocks.get(&Sku("85123A".into())).await?;
//! assert_eq!(found.value.as_deref(), Some(&7));
//! stocks.invalidate(&Sku("85123A".into())).await?; // after a write was committed
//! # Ok(())
//! # }
//! ```
//!
//! # How it stays true
//!
//! A read is one HGET of one field. On a miss a script gives the value, a *lease token*, or the news that another
//! process is loading and will tell. A load stores its value only while its own token is current; an invalidation voids
//! the token, so that a value read before a write is never stored after it (leases as in "Scaling Memcache at
//! Facebook", NSDI 2013, section 3.2.1, with a token per attempt). Absence is stored under the same rule. Within the
//! process the callers of one key share a *flight*; a caller that boarded after the question was asked takes the answer
//! only if its fill was accepted, and otherwise flies again.
//!
//! Several versions of a program may run at once: each keeps values of its own under one key, so that none reads what
//! another understands differently and none overwrites it. During a deployment each version loads a key once; an
//! invalidation by either drops the values and voids the loads of both.
//!
//! Readers need not wait as long as a load may take: after [`CacheBuilder::soft_timeout`] an expired value does, after
//! [`CacheBuilder::hard_timeout`] there is an error, and the load lands in the background.
//!
//! A value that is about to expire is loaded again in the background, earlier the longer its load takes
//! ([`CacheBuilder::early_refresh`]); with [`CacheBuilder::stale_while_revalidate`] an expired one is served meanwhile.
//! Both take the lease or leave it to whoever has it.
//!
//! [`Cache::reload`] loads although there is a value, under the same rules; the old one stays until the new one is
//! there. A transaction that wants to see what it wrote itself reads past the cache, with `get_in` (feature
//! `postgres`).
//!
//! The loader reads from the primary, in a snapshot that begins inside its call; a write calls
//! [`Cache::invalidate`] after its commit, best through a transaction that also records it for a relay.
//!
//! # Tags
//!
//! What belongs together can be invalidated together: a loader names the tags of a value ([`Loaded::tags`]), and
//! [`Cache::invalidate_tag`] drops every value that has one, by one script however many there are. The script does not
//! look for values: Redis counts invalidations of tags in one sorted set for each cache, a lease notes the count before
//! the load, and a value is good while none of its tags was invalidated at a later count. A load under way for such a
//! value is not stored.
//!
//! A read of a value with tags costs one round trip more, in which the set is asked; without tags nothing more is
//! asked. [`Cache::get_many`] asks for all its values at once. A tag is remembered as long as a value from before its
//! invalidation can be there: lease, lifetime and grace together, for 65,536 tags at most. When the set is lost, and
//! whenever another run of the server begins, all values with tags are loaded again, and the others stay. No clock of
//! any machine is compared with another.
//!
//! # When something is down
//!
//! Redis that is down, slow or frozen costs at most the command time-out, then a breaker makes it free. Reads go on in
//! this order: a value of this process, a value of Redis, an expired value within its grace, a limited load, and last
//! [`CacheError::Shed`]. An answer without Redis is marked [`CacheInfo::degraded`], and its value is not
//! stored. While an expired value is served because its load failed, the load is tried once per
//! [`CacheBuilder::hold_off`]. So is the load of a key that keeps failing with nothing to serve
//! ([`CacheError::HeldOff`]): a row that can't be loaded keeps no other from being loaded, and counts once against the
//! database. After a reconnection the in-process tier begins empty.
//!
//! A fresh answer of the in-process tier lacks no write that is older than three seconds. How old one may be that it
//! lacks is shown by the gauge `stockade_cache_local_staleness_bound_seconds`, usually below 1.3; 0 means that the tier
//! answers nothing as fresh. Each process that asks nothing else sends one small command a second for that.
//! [`CacheBuilder::under_locks`] lets requests that hold the shared lock of a key be answered from there, and miss
//! nothing that was written under that lock.

#![cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only transactions announce writes"))]

pub mod bloom;
mod builder;
mod core;
mod error;
mod fetch;
mod flight;
mod handle;
mod info;
mod invalidation;
mod load;
mod local;
mod read;
mod settings;
mod stats;
mod store;
mod strict;
mod tags;
mod value;
mod warm;

pub use bloom::Bloom;
pub use builder::CacheBuilder;
pub use error::{BuildError, CacheError, LoadError};
pub use handle::Cache;
pub use info::{CacheInfo, Lookup, Source};
#[cfg(test)]
pub(crate) use invalidation::Invalidate;
pub use invalidation::Invalidator;
#[cfg(feature = "postgres")]
pub use load::LoadIn;
pub use load::{Limits, Loaded, RowError};
pub use stats::CacheStats;
#[cfg(test)]
pub(crate) use store::Outcomes;
#[cfg(feature = "postgres")]
pub(crate) use store::{NotTaken, OLD_PRIMARY_WRITES, UnsureRun};
#[cfg(feature = "postgres")]
pub(crate) use strict::{Fates, Intent, Relayed};
#[cfg(feature = "postgres")]
pub(crate) use tags::Tag;
pub use tags::TagError;
pub use value::{Codec, Compression};
pub use warm::{WarmProgress, WarmReport, WarmState, Warmup};
