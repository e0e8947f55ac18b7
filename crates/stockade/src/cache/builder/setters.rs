use std::{num::NonZeroU32, ops::RangeInclusive, time::Duration};

use super::CacheBuilder;
use crate::cache::Bloom;
#[cfg(feature = "lz4")]
use crate::cache::Compression;
#[cfg(feature = "postgres")]
use crate::cache::{Fates, Relayed, strict::Strict};
use crate::{
    cache::{
        Codec, Limits, LoadError, Loaded,
        load::{LoadBatchFn, LoadFn},
    },
    resource::Resource,
};

impl<K: Resource, V> CacheBuilder<K, V> {
    /// The namespace of the keys and the metric label, `[a-z0-9_-]+`. Default [`Resource::KIND`].
    pub fn name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// How long a value is fresh. The time is drawn from this range for each value, so that values loaded together do
    /// not expire together. Default 5 to 10 minutes. A strict cache takes no more than 10 minutes: invalidations are
    /// kept no longer, and a restarted Redis may bring older values back.
    pub fn ttl(self, range: RangeInclusive<Duration>) -> Self {
        Self { ttl: range, ..self }
    }

    /// How long the absence of a row is remembered. Default 60 s; in a strict cache at most 10 minutes.
    pub fn null_ttl(self, ttl: Duration) -> Self {
        Self { null_ttl: ttl, ..self }
    }

    /// How long an expired value is kept for emergencies. It is served when the loader fails or is held off, and while
    /// Redis is unreachable. Default 60 s. Zero serves no expired value, and neither does a strict cache.
    ///
    /// A value in memory, expired or not, is served without Redis for one grace. The grace counts from when the value
    /// expired, or from when the process last heard of invalidations, whichever is earlier. Such an answer may miss
    /// all writes of the last grace, and is marked as degraded.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How long no process loads a key again after a failed load, if there is an expired value within its
    /// [`CacheBuilder::grace`] to serve. If there is none, readers get
    /// [`CacheError::HeldOff`](crate::cache::CacheError::HeldOff) for this time after two failed loads of the key in a
    /// row. Other keys are loaded meanwhile, and a write to the key ends the hold-off. Zero: the next reader tries
    /// again. Default 1 s.
    pub fn hold_off(self, window: Duration) -> Self {
        Self { hold_off: window, ..self }
    }

    /// How long an expired value is served at once while one process loads it again in the background. The value may
    /// then be older than [`CacheBuilder::ttl`]; a write still drops it. [`CacheBuilder::grace`] must be at least as
    /// long. Default zero: the first reader waits for the load. A strict cache refuses another value.
    pub fn stale_while_revalidate(self, window: Duration) -> Self {
        Self { revalidate: window, ..self }
    }

    /// How early a value in use is loaded again before it expires, so that no reader waits for the load. The mean lead
    /// is `beta` times the duration of its last load, and at most half its lifetime. Zero: not before it expires.
    /// Default 1.
    pub fn early_refresh(self, beta: f64) -> Self {
        Self { beta, ..self }
    }

    /// Serves fresh values from the memory of this process, up to `weight` bytes, while the subscription to
    /// invalidations is live. A read sees the write of another process when its message arrives, which is after the
    /// write was acknowledged.
    ///
    /// Default: each read asks Redis, and up to 16 MiB of values are kept for [`CacheBuilder::grace`].
    pub fn local(self, weight: u64) -> Self {
        Self { local: Some(weight), ..self }
    }

    /// Serves fresh values from the memory of this process to requests that hold the shared lock of their key: by the
    /// extractor `Cached`, behind a `RouteLock` for reading.
    ///
    /// With this setting you promise that **every writer of the rows behind a value holds the exclusive lock of the
    /// value's key**, in the same [`Locks`](crate::Locks), until its write is committed and invalidated. A value from
    /// memory is then served if the process asked for it after the shared lock was granted, the lock is still held, and
    /// the subscription to invalidations is live. Any other read asks Redis and keeps the value for later reads.
    ///
    /// Such a read misses no write of a `postgres::Tx` under the lock that was acknowledged before the read began. For
    /// this reason a commit whose lock was lost returns 3 s later: by then every process has heard of the write, or
    /// serves nothing from memory. A write without this lock, or past `Tx` after its lock was lost, is seen when its
    /// message arrives, after 3 s at most.
    ///
    /// Off by default. A strict cache refuses it. Up to 16 MiB of values are kept, or the weight of
    /// [`CacheBuilder::local`]. With both settings, a read that this one does not allow may still be served by the
    /// other.
    pub fn under_locks(self) -> Self {
        Self { under_locks: true, ..self }
    }

    /// The largest encoded value that is stored, in bytes. A larger value is returned and not stored. Default 1 MiB.
    ///
    /// Above 1.5 MiB, raise `client-output-buffer-limit pubsub` of Redis to 20 times this size, and end its limit of a
    /// minute: `client-output-buffer-limit pubsub 64mb 0 0` for values of 3 MiB. With its default Redis may close the
    /// connection when many such values are read at once, and the reads become loads.
    pub fn max_value(self, bytes: usize) -> Self {
        Self { max_value: bytes, ..self }
    }

    /// How values are encoded in Redis. Versions of a program with different codecs keep separate values. Default
    /// [`Codec::Json`].
    pub fn codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    /// Compresses values in Redis. [`CacheBuilder::max_value`] and [`CacheBuilder::local`] limit the size before
    /// compression, so that nothing larger is ever inflated. Versions of a program that compress and versions that
    /// don't keep separate values. Default: no compression.
    #[cfg(feature = "lz4")]
    pub fn compress(self, compression: Compression) -> Self {
        Self { compression: Some(compression), ..self }
    }

    /// How many loads run at a time in this process. Up to 8,192 wait for their turn, for half a
    /// [`CacheBuilder::load_timeout`] at most; the rest is shed ([`CacheError::Shed`](crate::cache::CacheError::Shed)).
    /// Give as many as the database and the pool of the loader bear. Default 8.
    pub fn max_loads(self, max: usize) -> Self {
        Self { max_loads: max, ..self }
    }

    /// How many loads begin per second in this process; after a quiet time this many may begin at once. Default: no
    /// limit.
    pub fn load_rate(self, per_second: NonZeroU32) -> Self {
        Self { load_rate: Some(per_second), ..self }
    }

    /// Limits shared with other caches that load from the same database, in place of [`CacheBuilder::max_loads`] and
    /// [`CacheBuilder::load_rate`].
    pub fn limits(self, limits: &Limits) -> Self {
        Self { limits: Some(limits.clone()), ..self }
    }

    /// How long a load may take. Before it begins, it may wait for its turn for half as long. Readers may give up
    /// earlier, see [`CacheBuilder::hard_timeout`]. Default 2 s.
    ///
    /// A load that timed out frees its place, and Postgres may still run its query. Make this longer than the
    /// `acquire_timeout` and the `statement_timeout` of the loader's pool together, so that such queries do not add up.
    /// The default of `postgres::Timeouts` is too long for that: see its `statement` (feature `postgres`).
    pub fn load_timeout(self, timeout: Duration) -> Self {
        Self { load_timeout: timeout, ..self }
    }

    /// How long a read waits for a load if there is an expired value within its [`CacheBuilder::grace`]. The answer is
    /// then the expired value, marked as stale ([`CacheInfo::stale`](crate::cache::CacheInfo::stale)), while the load
    /// goes on and stores its value. A reader without such a value waits on. The time counts from when this process
    /// began to fetch the key, so during a long load only the first readers wait. A strict cache refuses this setting.
    /// Default: every read waits for the load.
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

    /// How long a read waits for loads at most, its own or those of others, from the beginning of the call. For a call
    /// with several keys it is the limit of the whole call. Then the answer is an expired value within its
    /// [`CacheBuilder::grace`], or [`CacheError::Timeout`](crate::cache::CacheError::Timeout). The load goes on in the
    /// background and stores its value; it keeps its lease and its place among the [`Limits`], and ends at
    /// [`CacheBuilder::load_timeout`] or with a shutdown. A load that has not begun by then is not begun: without a
    /// [`CacheBuilder::batch_loader`] the keys of a call are loaded a few at a time.
    ///
    /// Default: no limit of its own. A read waits for its load, and for those of other processes before it. One that
    /// died keeps its place for a [`CacheBuilder::lease`]. In all this takes two leases and two and a half
    /// [`CacheBuilder::load_timeout`] at most: 13 s with the defaults. If a write voids the answer, the read waits once
    /// more.
    pub fn hard_timeout(self, wait: Duration) -> Self {
        Self { hard_timeout: Some(wait), ..self }
    }

    /// How long the lease of a load lasts. If the process with the lease dies, another process loads after this time.
    /// At least one and a half times [`CacheBuilder::load_timeout`]. Default: twice [`CacheBuilder::load_timeout`].
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

    /// Makes reads linearizable with announced writes. `fates` tells what became of a transaction, and `relayed`
    /// whether a relay runs.
    #[cfg(feature = "postgres")]
    pub(crate) fn announced(self, fates: Fates, relayed: Relayed) -> Self {
        Self { strict: Some(Strict::new(fates, relayed)), ..self }
    }

    /// Asks this filter before a load. If the filter says so, the answer is that there is no such row. The filter must
    /// hold the keys of this cache: a filter of keys of another [`Resource::KIND`] is refused. With `strict` and behind
    /// sentinels the filter is asked only if primaries have `min-replicas-to-write`.
    pub fn bloom(self, filter: &Bloom) -> Self {
        Self { bloom: Some(filter.clone()), ..self }
    }

    /// How a value is loaded. `Ok(None)` means that there is no such row. Return [`Loaded`] to add a version, a
    /// lifetime or tags.
    ///
    /// The loader must read from the primary, in a snapshot that begins inside the call. It runs on a task of the
    /// cache, so a caller that goes away does not cancel it. All waiting callers share its error. The task runs on the
    /// runtime in which the cache was built, that of [`Cache::memory`](crate::Cache::memory) on that of the caller.
    ///
    /// Five failures in a row, each of another key, open the breaker of [`Limits`]; no load is tried for a while. A key
    /// that keeps failing counts once, and is held off by itself ([`CacheBuilder::hold_off`]). If the loader knows that
    /// a row is at fault and not the database, it returns [`RowError`](crate::cache::RowError), which never counts.
    pub fn loader<F, Fut, L, E>(self, load: F) -> Self
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<L, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let loader: LoadFn<K, V> = Box::new(move |key| {
            let loading = load(key);
            Box::pin(async { loading.await.map(Into::into).map_err(LoadError::new) })
        });
        Self {
            loader: Some(loader),
            #[cfg(feature = "postgres")]
            load_in: None,
            ..self
        }
    }

    /// How several values are loaded at once, for [`Cache::get_many`](crate::Cache::get_many). The loader returns pairs
    /// of key and value, with the keys as it gets them; a key that it leaves out has no row. If it leaves one out and
    /// gives another that nobody asked for, as a database does that compares without regard to case, the load has
    /// failed. The rules of [`CacheBuilder::loader`] hold here too, and that loader is still needed, for one key alone:
    /// if a load of several keys fails, or a key failed lately, each key is loaded by itself, so that a faulty row does
    /// not fail others. Default: one load for each key.
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
                let rows = loading.await.map_err(LoadError::new)?;
                Ok(rows.into_iter().map(|(key, loaded)| (key, loaded.into())).collect())
            })
        });
        Self { batch_loader: Some(loader), ..self }
    }
}
