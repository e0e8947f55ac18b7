use std::{num::NonZeroU32, ops::RangeInclusive, time::Duration};

use super::CacheBuilder;
use crate::cache::Bloom;
#[cfg(feature = "lz4")]
use crate::cache::Compression;
#[cfg(feature = "postgres")]
use crate::cache::load::LoadInFn;
#[cfg(feature = "postgres")]
use crate::cache::{Fates, Relayed, strict::Strict};
use crate::{
    cache::{
        Codec, Limits, Loaded,
        error::share,
        load::{LoadBatchFn, LoadFn},
    },
    resource::Resource,
};

impl<K: Resource, V> CacheBuilder<K, V> {
    /// The namespace of the keys and the metric label, `[a-z0-9_-]+`. Default [`Resource::KIND`].
    pub fn name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// How long a value is fresh: drawn from this range for each fill, so that what was loaded together does not expire
    /// together. Default 5 to 10 minutes, which is as long as a strict cache takes: longer than that, nobody could drop
    /// a value again that a restarted Redis brought back.
    pub fn ttl(self, range: RangeInclusive<Duration>) -> Self {
        Self { ttl: range, ..self }
    }

    /// How long the absence of a row is believed; in a strict cache at most 10 minutes. Default 60 s.
    pub fn null_ttl(self, ttl: Duration) -> Self {
        Self { null_ttl: ttl, ..self }
    }

    /// How long past its freshness a value is kept for bad times: served when the loader fails or is held back, and,
    /// marked as degraded, while Redis is unreachable and nobody could tell of a write. Zero serves none. Default 60 s.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How long after a failed load of a key no other load of it begins, in any process, while there is an expired
    /// value within its [`CacheBuilder::grace`] to serve. After two failed loads of the key in a row, readers with
    /// nothing to serve are held off for as long too, with [`CacheError::HeldOff`](crate::cache::CacheError::HeldOff);
    /// other keys are loaded meanwhile. A write ends it. Zero: whoever comes next tries again. Default 1 s.
    pub fn hold_off(self, window: Duration) -> Self {
        Self { hold_off: window, ..self }
    }

    /// How long past its freshness a value is served at once while one process loads it again in the background. It may
    /// then be older than [`CacheBuilder::ttl`] says; a write still drops it. Needs a [`CacheBuilder::grace`] that is
    /// no shorter. Default zero: whoever comes first waits for the load.
    pub fn stale_while_revalidate(self, window: Duration) -> Self {
        Self { revalidate: window, ..self }
    }

    /// How eagerly a value in use is loaded again before it expires, so that nobody waits for it: the mean lead is
    /// `beta` times the duration of its last load, at most half its lifetime. Zero waits for the end. Default 1.
    pub fn early_refresh(self, beta: f64) -> Self {
        Self { beta, ..self }
    }

    /// Serves fresh values from the memory of this process, up to `weight` bytes, as long as the subscription to
    /// invalidations is live. Another process's write is seen when its message arrives, not when it was acknowledged.
    ///
    /// Default: values are kept up to 16 MiB for [`CacheBuilder::grace`], and each read asks Redis.
    pub fn local(self, weight: u64) -> Self {
        Self { local: Some(weight), ..self }
    }

    /// Serves fresh values from the memory of this process to requests that hold the shared lock of their key: by the
    /// extractor `Cached`, behind a `RouteLock` for reading.
    ///
    /// It says that **every writer of what a value is made of holds the exclusive lock of the value's key**, in the
    /// same [`Locks`](crate::Locks), until its write is committed and invalidated. A value is then served if it was
    /// asked for after the shared lock was granted, the lock is still held, and the subscription to invalidations is
    /// live. Any other read asks Redis, and what it finds is kept for those who come after it.
    ///
    /// Such a read misses no write of a `postgres::Tx` under the lock that was acknowledged before the read began. That
    /// is why a commit whose lock was lost returns 3 s later: by then every process has heard of it, or serves nothing
    /// from memory. A write under no lock, or under another one, or that reaches the database on another way and has
    /// lost its lock, is seen when its message arrives, after 3 s at most.
    ///
    /// Off by default. A strict cache refuses it. It keeps up to 16 MiB of values, or as much as
    /// [`CacheBuilder::local`] says; with that setting a read that may not be served by this rule is served by that
    /// one.
    pub fn under_locks(self) -> Self {
        Self { under_locks: true, ..self }
    }

    /// The largest encoded value that is stored, in bytes; a larger one is returned and not stored. Default 1 MiB.
    pub fn max_value(self, bytes: usize) -> Self {
        Self { max_value: bytes, ..self }
    }

    /// How values are written in Redis. Versions of a program that differ in it keep values of their own. Default
    /// [`Codec::Json`].
    pub fn codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    /// Compresses values in Redis. [`CacheBuilder::max_value`] and [`CacheBuilder::local`] count their size before
    /// that, so that nothing larger is ever inflated. Versions of a program that compress and those that don't keep
    /// values of their own. Default: no compression.
    #[cfg(feature = "lz4")]
    pub fn compress(self, compression: Compression) -> Self {
        Self { compression: Some(compression), ..self }
    }

    /// How many loads run at a time in this process; up to 64 times as many wait for their turn, the rest is shed at
    /// once. Default 8.
    pub fn max_loads(self, max: usize) -> Self {
        Self { max_loads: max, ..self }
    }

    /// How many loads begin per second in this process; after a quiet time so many at once. Default: as many as come.
    pub fn load_rate(self, per_second: NonZeroU32) -> Self {
        Self { load_rate: Some(per_second), ..self }
    }

    /// Limits shared with other caches that load from the same database, in place of [`CacheBuilder::max_loads`] and
    /// [`CacheBuilder::load_rate`].
    pub fn limits(self, limits: &Limits) -> Self {
        Self { limits: Some(limits.clone()), ..self }
    }

    /// How long a load may take; readers may wait for less, see [`CacheBuilder::hard_timeout`]. A load waits up to half
    /// as long for its place before it begins. Default 2 s.
    pub fn load_timeout(self, timeout: Duration) -> Self {
        Self { load_timeout: timeout, ..self }
    }

    /// How long a read waits for a load when it has found an expired value within its [`CacheBuilder::grace`]: it is
    /// then answered with that, marked as stale ([`CacheInfo::stale`](crate::cache::CacheInfo::stale)), while the load
    /// goes on and stores its value. A reader that found none waits on. It counts from when this process began to fetch
    /// the key, so that of a load that takes long only the first readers wait. A strict cache refuses it. Default:
    /// every read waits for the load.
    ///
    /// ```
    /// # use std::{borrow::Cow, convert::Infallible, time::Duration};
    /// # use stockade::{Cache, Resource};
    /// # #[derive(Clone)]
    /// # struct Report(u32);
    /// # impl Resource for Report {
    /// #     const KIND: &'static str = "report";
    /// #     fn id(&self) -> Cow<'_, str> { Cow::Owned(self.0.to_string()) }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let reports = Cache::<Report, String>::memory()
    ///     .grace(Duration::from_secs(3600))
    ///     .load_timeout(Duration::from_secs(30)) // what a load may take
    ///     .soft_timeout(Duration::from_millis(100)) // then yesterday's report will do
    ///     .hard_timeout(Duration::from_secs(3)) // and without one nobody waits longer than this
    ///     .loader(|report: Report| async move { Ok::<_, Infallible>(Some(format!("report {}", report.0))) })
    ///     .build();
    /// # assert!(reports.get(&Report(7)).await.is_ok());
    /// # }
    /// ```
    pub fn soft_timeout(self, wait: Duration) -> Self {
        Self { soft_timeout: Some(wait), ..self }
    }

    /// How long a read waits for a load at most, its own or another's, from the beginning of the call; a call for
    /// several keys for all of them. Then it is answered with the expired value that it has found, if that is within
    /// its [`CacheBuilder::grace`], or else with [`CacheError::Timeout`](crate::cache::CacheError::Timeout). A load
    /// that runs lands in the background and stores its value: under its lease, in its place among the [`Limits`], for
    /// [`CacheBuilder::load_timeout`] at most, and not beyond a shutdown. Default: a read waits as long as a load may
    /// take.
    pub fn hard_timeout(self, wait: Duration) -> Self {
        Self { hard_timeout: Some(wait), ..self }
    }

    /// How long the lease of a load lasts. If the process that has the lease dies, another process loads after that
    /// time. At least one and a half times [`CacheBuilder::load_timeout`]. Default: twice that.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// A number for what the values of this cache mean. Raise it with every change of `V`, and of the types that `V`
    /// holds, after which a value of the old version must not be read by the new one, or the other way round. Default
    /// 0.
    ///
    /// Versions of a program whose `V` has another name or another `schema` keep values of their own under one key:
    /// each loads what it needs, and a write drops all. The name is [`std::any::type_name`], with path and type
    /// arguments. A change of fields or variants alone is not noticed. With the same name and `schema`, a version
    /// - takes each value that its `Deserialize` accepts. A field that was added with `#[serde(default)]` has its
    ///   default then, and a field whose unit changed has the old number;
    /// - loads and overwrites a value that its `Deserialize` refuses. While both versions run, each overwrites the
    ///   other's values.
    ///
    /// Raise it also when the loader begins to give other tags ([`Loaded::tags`]). Go on invalidating by key while the
    /// old version runs.
    pub fn schema(self, version: u32) -> Self {
        Self { schema: version, ..self }
    }

    /// Makes reads linearizable with writes that are announced; `fates` tells what became of a transaction, `relayed`
    /// whether a relay runs. For `kept` after it was made, an invalidation is made again on a store that may have lost
    /// it.
    #[cfg(feature = "postgres")]
    pub(crate) fn announced(self, fates: Fates, relayed: Relayed, kept: Duration) -> Self {
        Self { strict: Some(Strict::new(fates, relayed, kept)), ..self }
    }

    /// Asks this filter before a load, and answers that there is no such row where it says so. It must hold the same
    /// keys as this cache. With `strict` and behind sentinels it is asked only where primaries have
    /// `min-replicas-to-write`.
    pub fn bloom(self, filter: &Bloom) -> Self {
        Self { bloom: Some(filter.clone()), ..self }
    }

    /// How a value is loaded; `Ok(None)` when there is no such row. [`Loaded`] says more about it.
    ///
    /// It must read from the primary, in a snapshot that begins inside the call. It runs on a task of the cache: a
    /// caller that goes away does not cancel it. Its error is shared by all who waited. Five failures in a row, each of
    /// another key, open the breaker of [`Limits`], so that for a while no load is tried. A key that goes on failing
    /// counts once, and is held off by itself ([`CacheBuilder::hold_off`]). A loader that knows a row to be at fault,
    /// not the database, says so with [`RowError`](crate::cache::RowError): that never counts.
    pub fn loader<F, Fut, L, E>(self, load: F) -> Self
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<L, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let loader: LoadFn<K, V> = Box::new(move |key| {
            let loading = load(key);
            Box::pin(async { loading.await.map(Into::into).map_err(share) })
        });
        Self {
            loader: Some(loader),
            #[cfg(feature = "postgres")]
            load_in: None,
            ..self
        }
    }

    /// The same loader in its two forms.
    #[cfg(feature = "postgres")]
    pub(crate) fn loaded_by(self, loader: LoadFn<K, V>, load_in: LoadInFn<K, V>) -> Self {
        Self { loader: Some(loader), load_in: Some(load_in), ..self }
    }

    /// How several values are loaded at once, for [`Cache::get_many`](crate::Cache::get_many): with the key of each; a
    /// key that is left out has no row. The rest is as for [`CacheBuilder::loader`], which is needed too: when a load
    /// of several keys fails, or a key failed lately, each is loaded by itself, so that one row takes no other with it.
    /// Default: one load for each key.
    pub fn batch_loader<F, Fut, L, E>(self, load: F) -> Self
    where
        F: Fn(Vec<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<(K, L)>, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let loader: LoadBatchFn<K, V> = Box::new(move |keys| {
            let loading = load(keys);
            Box::pin(async {
                let rows = loading.await.map_err(share)?;
                Ok(rows.into_iter().map(|(key, loaded)| (key, loaded.into())).collect())
            })
        });
        Self { batch_loader: Some(loader), ..self }
    }
}
