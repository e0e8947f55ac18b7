//! Cache-aside: values of the database, kept in Redis and in the memory of the process. A value is loaded once in the
//! whole fleet, and dropped when its row is written.
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
//! A read is one HGET of one field. On a miss a script answers with the value, with a *lease token*, or that another
//! process is loading the key. A load stores its value only while its lease token is current. An invalidation voids the
//! token, so a value that was read before a write is never stored after it (leases as in "Scaling Memcache at
//! Facebook", NSDI 2013, section 3.2.1, with a token for each attempt). Absence is stored under the same rule.
//!
//! Within a process the callers of one key share a *flight* (single flight). A caller that joins after Redis was asked
//! takes the answer only if Redis accepted the value, and starts another flight otherwise.
//!
//! The loader must read from the primary, in a snapshot that begins inside its call. A writer calls
//! [`Cache::invalidate`] after its commit, or better uses a transaction that also records the invalidation for a relay.
//! A transaction that must see its own writes reads past the cache, with `get_in` (feature `postgres`).
//!
//! # When values are loaded again
//!
//! - A value that is about to expire is loaded again in the background; the longer its load takes, the earlier
//!   ([`CacheBuilder::early_refresh`]).
//! - With [`CacheBuilder::stale_while_revalidate`] an expired value is served while it is loaded again.
//! - A reader need not wait as long as a load may take. After [`CacheBuilder::soft_timeout`] it gets an expired value,
//!   after [`CacheBuilder::hard_timeout`] an error. The load goes on in the background.
//! - [`Cache::inspect`] says where a value is, how old it is, and whether it is being loaded. It loads nothing.
//!
//! Several versions of a program may run at the same time. If [`CacheBuilder::schema`] is raised with every change of
//! the type, each version keeps its own values under one key, and no version reads or overwrites a value of another.
//! During a deployment each version loads a key once. An invalidation by either version drops the values and voids the
//! loads of both.
//!
//! # Tags
//!
//! Values that belong together can be invalidated together: a loader names the tags of a value ([`Loaded::tags`]), and
//! [`Cache::invalidate_tag`] drops every value with a tag, by one script however many values there are. The script does
//! not search for values. Redis counts invalidations of tags in one sorted set for each cache, a lease notes the count
//! before the load, and a value is valid while none of its tags was invalidated at a later count. A running load of
//! such a value is not stored.
//!
//! A read of a value with tags takes one more round trip, to ask the set; [`Cache::get_many`] asks once for all its
//! values. Values without tags cost nothing more. Redis remembers an invalidated tag for lease, lifetime and grace
//! together, as long as an older value may exist, and at most 65,536 tags. If the set is lost, and whenever a new run
//! of the server begins, all values with tags are loaded again; values without tags stay. The clocks of two machines
//! are never compared.
//!
//! # When something is down
//!
//! If Redis is down or frozen, a read waits for one command time-out. If Redis is slow but answers, each command of a
//! read takes four command time-outs at most, after up to twenty for its place on the connection. A hit is one command;
//! a miss, or a value with tags, is two. After a few failures a breaker opens, and reads do not wait for Redis at all.
//! Without an answer of Redis, a read gets the first of these that there is:
//!
//! 1. a value in the memory of this process, fresh or within its grace,
//! 2. a load, within the limits of loads,
//! 3. [`CacheError::Shed`].
//!
//! An answer without Redis is marked [`CacheInfo::degraded`], and its value is not stored. After a reconnection the
//! in-process tier is empty.
//!
//! If the load of a key fails, it is tried again once per [`CacheBuilder::hold_off`]. Readers get the expired value
//! meanwhile. If there is none, and the load failed twice in a row, they get [`CacheError::HeldOff`]. Such a row does
//! not delay the loads of others, and counts only once against the database.
//!
//! # How old an answer from memory may be
//!
//! A fresh answer from the memory of the process misses no write that is older than three seconds. The gauge
//! `stockade_cache_local_staleness_bound_seconds` shows the current bound, usually below 1.3; 0 means that the process
//! answers nothing from memory as fresh. To know the bound, an otherwise idle process sends one small command a second.
//! With [`CacheBuilder::under_locks`], requests that hold the shared lock of a key are answered from memory and miss
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
mod inspection;
mod invalidation;
mod load;
mod load_error;
mod local;
mod read;
mod runtime;
mod settings;
mod stats;
mod store;
mod strict;
mod tags;
mod value;
mod warm;

pub use bloom::Bloom;
pub use builder::CacheBuilder;
pub use error::{BuildError, CacheError};
pub use handle::Cache;
pub use info::{CacheInfo, Lookup, Source};
pub use inspection::{Inspection, Kept, Tier};
#[cfg(test)]
pub(crate) use invalidation::Invalidate;
pub use invalidation::Invalidator;
#[cfg(feature = "postgres")]
pub use load::LoadIn;
pub use load::{Limits, Loaded, RowError};
pub use load_error::LoadError;
pub use stats::CacheStats;
#[cfg(test)]
pub(crate) use store::Outcomes;
#[cfg(feature = "postgres")]
pub(crate) use store::{Fault, NotTaken, OLD_PRIMARY_WRITES, REPEATABLE, UnsureRun, some_at_a_time};
#[cfg(feature = "postgres")]
pub(crate) use strict::{Fates, Intent, Relayed};
#[cfg(feature = "postgres")]
pub(crate) use tags::Tag;
pub use tags::TagError;
pub use value::{Codec, Compression};
pub use warm::{WarmProgress, WarmReport, WarmState, Warmup};
