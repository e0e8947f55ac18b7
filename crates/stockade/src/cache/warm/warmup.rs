use std::{fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, future::ready};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{WarmProgress, WarmReport, WarmState, chunk::Chunk};
use crate::{cache::core::Core, resource::Resource};

/// How many chunks are worked on at a time: while one is loaded, the next is looked for.
const CHUNKS: usize = 2;

/// Keys to be loaded before anybody asks for them: after a start, or when many values were lost. [`Cache::warm`] makes
/// one.
///
/// It follows the rules of every read: a key that is there costs no load, one that somebody else loads is waited for,
/// and what was loaded before a write is not stored after it. Its loads take at most half of [`Limits`] (half the
/// places, rounded up, and half the rate), and begin only while reads leave more than the other half free. What another
/// process loads and gives up is no exception: it is waited for without a place, and then loaded in one of these. A
/// read that comes meanwhile goes on by itself, as if there were no warm-up; one that comes while the loader runs
/// shares its load. With a [`CacheBuilder::batch_loader`] a chunk of keys is one load.
///
/// ```
/// # use std::{borrow::Cow, convert::Infallible, time::Duration};
/// # use futures_util::stream;
/// # use stockade::{Cache, Resource};
/// # #[derive(Clone)]
/// # struct Sku(String);
/// # impl Resource for Sku {
/// #     const KIND: &'static str = "stock";
/// #     fn id(&self) -> Cow<'_, str> {
/// #         Cow::Borrowed(&self.0)
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let stocks = Cache::<Sku, u64>::memory().loader(|_| async { Ok::<_, Infallible>(Some(7)) }).build();
/// let keys = ["85123A", "22423"].map(|sku| Sku(sku.to_owned()));
/// let warmup = stocks.warm(stream::iter(keys)).within(Duration::from_secs(10));
/// let progress = warmup.progress(); // for the readiness probe
/// let report = warmup.run().await;
/// assert_eq!((report.loaded, report.skipped()), (2, 0));
/// assert!(!progress.is_running());
/// # }
/// ```
///
/// [`Cache::warm`]: crate::Cache::warm
/// [`CacheBuilder::batch_loader`]: crate::cache::CacheBuilder::batch_loader
/// [`Limits`]: crate::cache::Limits
#[must_use = "a warm-up does nothing until `run()`"]
pub struct Warmup<K, V, S> {
    core: Arc<Core<K, V>>,
    keys: S,
    limit: Duration,
    chunk: NonZeroUsize,
    end: End,
}

/// Ends the warm-up when it is dropped.
struct End(WarmProgress);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end(WarmState::Cancelled);
    }
}

impl<K, V, S> Warmup<K, V, S> {
    pub(in crate::cache) fn new(core: Arc<Core<K, V>>, keys: S) -> Self {
        let chunk = NonZeroUsize::MIN.saturating_add(99);
        Self { core, keys, limit: Duration::from_secs(30), chunk, end: End(WarmProgress::default()) }
    }

    /// How long it may take in all; what is not loaded by then is left to the reads. Default 30 s.
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// How many keys are looked for at a time, and loaded by one call of a batch loader. Default 100.
    pub fn chunk(self, keys: NonZeroUsize) -> Self {
        Self { chunk: keys, ..self }
    }

    /// A view of how far it is, which may be kept beside it.
    #[must_use]
    pub fn progress(&self) -> WarmProgress {
        self.end.0.clone()
    }
}

impl<K, V, S> Warmup<K, V, S>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
    S: Stream<Item = K> + Send,
{
    /// Loads what is not there, until the stream ends, the time is over or the cache shuts down. An error of the loader
    /// ends nothing: it is counted, and while the breaker of the database is open the warm-up waits. When Redis answers
    /// nothing for five seconds it ends.
    ///
    /// Cancel safe: dropped, it begins no more loads; one that runs goes on, and its value is stored.
    pub async fn run(self) -> WarmReport {
        let Self { core, keys, limit, chunk, end } = self;
        let progress = &end.0;
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let chunks = keys.ready_chunks(chunk.get()).map(|keys| {
            let chunk = Chunk { core: Arc::clone(&core), progress: progress.clone(), stop: stop.clone() };
            chunk.warm(keys)
        });
        let state = tokio::select! {
            biased;
            () = core.loader.closing.cancelled() => WarmState::ShuttingDown,
            () = stop.cancelled() => WarmState::Unavailable,
            ended = timeout(limit, chunks.buffer_unordered(CHUNKS).for_each(ready)) => match ended {
                Ok(()) => WarmState::Complete,
                Err(_) => WarmState::TimeUp,
            }
        };
        progress.end(state);
        progress.report()
    }
}

impl<K, V, S> fmt::Debug for Warmup<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warmup")
            .field("limit", &self.limit)
            .field("chunk", &self.chunk)
            .field("progress", &self.end.0.report())
            .finish_non_exhaustive()
    }
}
