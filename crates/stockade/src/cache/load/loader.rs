use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    RowError,
    failing::{Failing, News},
    limits::{Admission, Limits},
    row_error::{is_of_the_row, is_refused},
};
use crate::{
    breaker::Permit,
    cache::{
        CacheError, LoadError, Loaded, TagError,
        stats::{LoadCounters, LoadEnd},
    },
    chain::Chain,
    clock::Instant,
    metrics::{CACHE_LOAD, Times, tag},
    resource::{Key, Resource},
    spans,
};

/// The application's loader without its own types.
pub(crate) type LoadFn<K, V> = Box<dyn Fn(K) -> BoxFuture<'static, Result<Loaded<V>, LoadError>> + Send + Sync>;

/// The application's loader of several keys. A key that it does not return has no row.
pub(crate) type LoadBatchFn<K, V> =
    Box<dyn Fn(Vec<K>) -> BoxFuture<'static, Result<Vec<(K, Loaded<V>)>, LoadError>> + Send + Sync>;

/// Runs the loader within its limits.
pub(crate) struct Loader<K, V> {
    pub(crate) name: &'static str,
    pub(crate) load: LoadFn<K, V>,
    pub(crate) load_batch: Option<LoadBatchFn<K, V>>,
    pub(crate) limits: Limits,
    pub(crate) failing: Arc<Failing>,
    pub(crate) counters: LoadCounters,
    pub(crate) time: Duration,
    /// The error if values of this cache may have no tags.
    pub(crate) takes_tags: Result<(), TagError>,
    /// Once cancelled, no load begins.
    pub(crate) closing: CancellationToken,
    /// Once cancelled, running loads are dropped.
    pub(crate) aborting: CancellationToken,
}

/// A load that succeeded.
#[derive(Debug)]
pub(crate) struct Load<T, M = u64> {
    pub(crate) loaded: T,
    pub(crate) took: Duration,
    /// The result of `begin`.
    pub(crate) mark: M,
}

impl<K: Resource + Clone + Send + 'static, V: Send + 'static> Loader<K, V> {
    /// Runs the loader for one key, within the limits. Calls `begin` after the wait for a place, right before the
    /// loader runs.
    ///
    /// If `admission` is given, the load uses it instead of asking the limits for one.
    pub(crate) async fn run(
        &self,
        admission: Option<Admission<'_>>,
        key: K,
        name: &Key,
        begin: impl FnOnce() -> u64 + Send,
    ) -> Result<Load<Loaded<V>>, CacheError> {
        let end = |loaded: &Loaded<V>| if loaded.value.is_some() { LoadEnd::Ok } else { LoadEnd::Absent };
        let Load { loaded, took, mark } =
            self.within_limits(admission, &[name], || (self.load)(key), begin, end).await?;
        Ok(Load { loaded: self.accept(name, loaded)?, took, mark })
    }

    /// Refuses a value with tags that can't be stored, which counts as a failed load of its key. In a batch each value
    /// is checked by itself.
    pub(crate) fn accept(&self, name: &Key, loaded: Loaded<V>) -> Result<Loaded<V>, CacheError> {
        match loaded.accepted(self.takes_tags.clone()) {
            Ok(loaded) => {
                self.failing.loaded(&[name]);
                Ok(loaded)
            }
            Err(error) => {
                self.failing.failed(&[name], AT_FAULT);
                tracing::warn!(cache = self.name, %error, "what was loaded is refused");
                Err(CacheError::Tag(error))
            }
        }
    }

    /// As [`Loader::run`], for several keys, which count as one load.
    pub(crate) async fn run_batch(
        &self,
        admission: Option<Admission<'_>>,
        keys: Vec<K>,
        names: &[&Key],
        begin: impl FnOnce() -> Vec<u64> + Send,
    ) -> Result<Load<HashMap<Key, Loaded<V>>, Vec<u64>>, CacheError> {
        let load = || {
            let rows = match &self.load_batch {
                Some(load) if keys.len() > 1 => load(keys),
                _ => self.one_by_one(keys),
            };
            let asked: Vec<Key> = names.iter().map(|name| (*name).clone()).collect();
            async move { named(&asked, rows.await?) }.boxed()
        };
        self.within_limits(admission, names, load, begin, |_| LoadEnd::Ok).await
    }

    fn one_by_one(&self, keys: Vec<K>) -> BoxFuture<'static, Result<Vec<(K, Loaded<V>)>, LoadError>> {
        let loads: Vec<_> = keys.into_iter().map(|key| (key.clone(), (self.load)(key))).collect();
        Box::pin(async {
            let mut rows = Vec::with_capacity(loads.len());
            for (key, load) in loads {
                rows.push((key, load.await?));
            }
            Ok(rows)
        })
    }

    /// How long a load waits for a place: half of the load time-out. Then the wait and the load together stay within the
    /// caller's lease.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.time / 2
    }

    async fn within_limits<T, M>(
        &self,
        admission: Option<Admission<'_>>,
        names: &[&Key],
        load: impl FnOnce() -> BoxFuture<'static, Result<T, LoadError>> + Send,
        begin: impl FnOnce() -> M + Send,
        end: impl Fn(&T) -> LoadEnd + Send,
    ) -> Result<Load<T, M>, CacheError> {
        let admitting = async {
            match admission {
                Some(admission) => Ok(admission),
                None => self.limits.admit(self.longest_wait()).await,
            }
        };
        let admission = self.closing.run_until_cancelled(admitting).await.ok_or(CacheError::ShuttingDown)?;
        let admission = admission.map_err(|retry_after| CacheError::Shed { retry_after })?;
        let mark = begin();
        let running = self.counters.begin(self.name);
        let began = Instant::now();
        // The call itself is inside, so that a panic before the loader's first await is caught too.
        let loading = AssertUnwindSafe(async { load().await }).catch_unwind();
        let loading = loading.instrument(spans::cache_load(self.name, names.len()));
        let ended = tokio::select! {
            biased;
            () = self.aborting.cancelled() => Err(CacheError::ShuttingDown),
            ended = timeout(self.time, loading) => match ended {
                Ok(Ok(loaded)) => loaded.map_err(CacheError::Load),
                Ok(Err(_panic)) => Err(CacheError::Panicked),
                Err(_) => Err(CacheError::Timeout(self.time)),
            }
        };
        let took = began.elapsed();
        running.ended(match &ended {
            Ok(loaded) => end(loaded),
            Err(CacheError::Timeout(_)) => LoadEnd::Timeout,
            Err(CacheError::ShuttingDown) => LoadEnd::Cancelled,
            Err(_) => LoadEnd::Error,
        });
        Times::of(CACHE_LOAD, &[tag("cache", self.name)]).observe(took);
        self.report(ended.as_ref().err(), names, admission);
        Ok(Load { loaded: ended?, took, mark })
    }

    /// Logs a failure and reports to the breaker. A key that fails again says nothing new about the database, so only
    /// the first failure is reported. The probe of an open breaker has to say something: it reports any failure, unless
    /// other rows were loaded since the key first failed.
    fn report(&self, failure: Option<&CacheError>, names: &[&Key], Admission { permit, .. }: Admission<'_>) {
        let cache = self.name;
        match failure {
            // Whether the values are accepted is found out later. The database did its part.
            None => permit.succeeded(),
            Some(CacheError::Load(error)) => {
                let news = self.failing.failed(names, permit.successes());
                tracing::warn!(cache, error = %Chain(&**error), "load failed");
                if is_of_the_row(error) {
                    permit.succeeded();
                } else if !is_refused(error) && counts(news, &permit) {
                    permit.failed();
                }
            }
            Some(CacheError::Timeout(_)) => {
                tracing::warn!(cache, limit = ?self.time, "load took too long");
                if counts(self.failing.failed(names, permit.successes()), &permit) {
                    permit.failed();
                }
            }
            // A panic and a shutdown say nothing about the database.
            Some(CacheError::Panicked) => {
                self.failing.failed(names, AT_FAULT);
                tracing::error!(cache, "loader panicked");
            }
            Some(_) => {}
        }
    }
}

/// In place of a number of loads, for a failure that says nothing about the database, now or later.
const AT_FAULT: u64 = u64::MAX;

/// Whether the breaker is told of this failure.
fn counts(news: News, permit: &Permit) -> bool {
    match news {
        News::New => true,
        News::Nothing => permit.is_probe(),
        News::OfTheRows => false,
    }
}

/// The rows by the names of their keys. A row under another key than it was asked for is not absent, so there must not
/// be one in place of a row that is left out.
fn named<K: Resource, V>(asked: &[Key], rows: Vec<(K, Loaded<V>)>) -> Result<HashMap<Key, Loaded<V>>, LoadError> {
    let mut loaded = HashMap::with_capacity(rows.len());
    let mut others = false;
    for (key, row) in rows {
        // Runs code of the application. If that panics, it counts as a panic of the loader.
        match Key::of(&key) {
            Ok(key) => drop(loaded.insert(key, row)),
            Err(_) => others = true,
        }
    }
    let (given, left_out): (Vec<_>, Vec<_>) = asked.iter().partition(|name| loaded.contains_key(*name));
    match left_out.first() {
        Some(name) if others || loaded.len() > given.len() => Err(LoadError::new(RowError::new(format!(
            "the batch loader left out `{name}` and gave a key that nobody asked for: it must give the keys as it gets them"
        )))),
        _ => Ok(loaded),
    }
}
