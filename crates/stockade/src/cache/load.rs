use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    CacheError, LoadError, Loaded,
    limits::{Admission, Limits},
};
use crate::{
    clock::Instant,
    metrics::{self, CACHE_LOAD, CACHE_LOADS, CACHE_LOADS_IN_FLIGHT, Tag, tag},
    resource::{Key, Resource},
};

/// The application's loader with its types made uniform.
pub(crate) type LoadFn<K, V> = Box<dyn Fn(K) -> BoxFuture<'static, Result<Loaded<V>, LoadError>> + Send + Sync>;

/// The application's loader of several keys. What it does not return has no row.
pub(crate) type LoadBatchFn<K, V> =
    Box<dyn Fn(Vec<K>) -> BoxFuture<'static, Result<Vec<(K, Loaded<V>)>, LoadError>> + Send + Sync>;

/// Runs the loader within its limits.
pub(crate) struct Loader<K, V> {
    pub(crate) name: &'static str,
    pub(crate) load: LoadFn<K, V>,
    pub(crate) load_batch: Option<LoadBatchFn<K, V>>,
    pub(crate) limits: Limits,
    pub(crate) time: Duration,
    /// No load begins any more.
    pub(crate) closing: CancellationToken,
    /// Loads that run are given up.
    pub(crate) aborting: CancellationToken,
}

/// A load that ended well.
#[derive(Debug)]
pub(crate) struct Load<T, M = u64> {
    pub(crate) loaded: T,
    pub(crate) took: Duration,
    /// What `begin` returned.
    pub(crate) mark: M,
}

impl<K: Resource + Clone + Send + 'static, V: Send + 'static> Loader<K, V> {
    /// `begin` is called when the loader is about to run: after every wait for a place, before the first query.
    pub(crate) async fn run(&self, key: K, begin: impl FnOnce() -> u64 + Send) -> Result<Load<Loaded<V>>, CacheError> {
        let label = |loaded: &Loaded<V>| if loaded.value.is_some() { "ok" } else { "absent" };
        self.within_limits(None, || (self.load)(key), begin, label).await
    }

    pub(crate) fn loads_batches(&self) -> bool {
        self.load_batch.is_some()
    }

    /// As [`Loader::run`], for several keys; it counts as one load. With an admission it does not ask for one.
    pub(crate) async fn run_batch(
        &self,
        admission: Option<Admission<'_>>,
        keys: Vec<K>,
        begin: impl FnOnce() -> Vec<u64> + Send,
    ) -> Result<Load<HashMap<Key, Loaded<V>>, Vec<u64>>, CacheError> {
        let load = || match &self.load_batch {
            Some(load) => load(keys),
            None => self.one_by_one(keys),
        };
        let Load { loaded, took, mark } = self.within_limits(admission, load, begin, |_| "ok").await?;
        let named = |(key, loaded)| Some((Key::of(&key).ok()?, loaded));
        Ok(Load { loaded: loaded.into_iter().filter_map(named).collect(), took, mark })
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

    async fn within_limits<T, M>(
        &self,
        admission: Option<Admission<'_>>,
        load: impl FnOnce() -> BoxFuture<'static, Result<T, LoadError>> + Send,
        begin: impl FnOnce() -> M + Send,
        label: impl Fn(&T) -> &'static str + Send,
    ) -> Result<Load<T, M>, CacheError> {
        if self.closing.is_cancelled() {
            return Err(CacheError::ShuttingDown);
        }
        // Half, so that the wait and the load together stay within the lease that the caller holds.
        let admission = match admission {
            Some(admission) => admission,
            None => {
                let admission = self.limits.admit(self.time / 2).await;
                admission.map_err(|shed| CacheError::Shed { retry_after: shed.retry_after })?
            }
        };
        let mark = begin();
        let in_flight = InFlight::new(self.name);
        let began = Instant::now();
        // The call itself is inside, so that a loader that panics before its first await is caught too.
        let loading = AssertUnwindSafe(async { load().await }).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = self.aborting.cancelled() => End::Cancelled,
            ended = timeout(self.time, loading) => match ended {
                Ok(Ok(Ok(loaded))) => End::Loaded(loaded),
                Ok(Ok(Err(error))) => End::Failed(CacheError::Load(error)),
                Ok(Err(_panic)) => End::Panicked,
                Err(_) => End::TimedOut,
            }
        };
        let took = began.elapsed();
        drop(in_flight);
        metrics::count(CACHE_LOADS, &[tag("cache", self.name), tag("outcome", ended.label(label))]);
        metrics::observe(CACHE_LOAD, &[tag("cache", self.name)], took);
        match ended {
            End::Loaded(loaded) => {
                admission.succeeded();
                Ok(Load { loaded, took, mark })
            }
            End::Failed(error) => {
                admission.failed();
                tracing::warn!(cache = self.name, error = %Chain(&error), "load failed");
                Err(error)
            }
            End::TimedOut => {
                admission.failed();
                tracing::warn!(cache = self.name, limit = ?self.time, "load took too long");
                Err(CacheError::Timeout(self.time))
            }
            // A panic and a shutdown say nothing about the database.
            End::Panicked => {
                tracing::error!(cache = self.name, "loader panicked");
                Err(CacheError::Panicked)
            }
            End::Cancelled => Err(CacheError::ShuttingDown),
        }
    }
}

enum End<T> {
    Loaded(T),
    Failed(CacheError),
    TimedOut,
    Panicked,
    Cancelled,
}

/// Shows the loads of a cache as zero before the first.
pub(crate) fn announce(cache: &'static str) {
    for outcome in ["ok", "absent", "error", "timeout", "cancelled"] {
        metrics::announce(CACHE_LOADS, &[tag("cache", cache), tag("outcome", outcome)]);
    }
}

impl<T> End<T> {
    fn label(&self, loaded_as: impl Fn(&T) -> &'static str) -> &'static str {
        match self {
            Self::Loaded(loaded) => loaded_as(loaded),
            Self::Failed(_) | Self::Panicked => "error",
            Self::TimedOut => "timeout",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Counts in the gauge while it lives.
struct InFlight([Tag; 1]);

impl InFlight {
    fn new(cache: &'static str) -> Self {
        let tags = [tag("cache", cache)];
        metrics::gauge_add(CACHE_LOADS_IN_FLIGHT, &tags, 1.0);
        Self(tags)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge_add(CACHE_LOADS_IN_FLIGHT, &self.0, -1.0);
    }
}

/// An error with its sources, for the log.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// Anything that converts to a boxed error, as the shared form.
pub(crate) fn share(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> LoadError {
    Arc::from(error.into())
}
