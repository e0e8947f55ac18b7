use std::{fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, future::ready};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{WarmProgress, WarmReport, WarmState, chunk::Chunk};
use crate::{cache::core::Core, resource::Resource};

/// How many chunks are handled at a time: while one is loaded, the next is looked up.
const CHUNKS: usize = 2;

/// Loads keys before they are asked for: after a start, or when many values were lost. [`Cache::warm`] makes a warm-up.
///
/// A warm-up follows the rules of every read. A stored key costs no load, a key that somebody else is loading is waited
/// for, and a value that was loaded before a write is not stored after it. With a [`CacheBuilder::batch_loader`] a
/// chunk of keys is one load.
///
/// The loads of a warm-up take at most half of [`Limits`]: half the places, rounded up, and half the rate. They begin
/// only while reads leave more than the other half of the places free. A warm-up takes no place while it waits for
/// somebody else's load. If the key is still missing afterwards, the warm-up takes a place under the same rules.
///
/// A read that comes before the loader runs does not wait for the warm-up. A read that comes while the loader runs
/// shares its load.
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

/// Notes, when it is dropped, that the warm-up was cancelled, unless the warm-up has ended.
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

    /// How long the whole warm-up may take. Keys that are not loaded by then are left to reads. Default: 30 s.
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// How many keys are looked up at a time, and loaded by one call of a batch loader. Default: 100.
    pub fn chunk(self, keys: NonZeroUsize) -> Self {
        Self { chunk: keys, ..self }
    }

    /// A handle that shows the progress, while the warm-up runs and afterwards.
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
    /// Loads the keys that are not stored. It ends when the stream ends, the time is over, the cache shuts down, or
    /// Redis does not answer for five seconds. An error of the loader is counted and does not end the warm-up. While
    /// the breaker of the database is open, the warm-up waits.
    ///
    /// Cancel safe: if it is dropped, it begins no more loads. A running load goes on and its value is stored.
    pub async fn run(self) -> WarmReport {
        let Self { core, keys, limit, chunk, end } = self;
        let progress = &end.0;
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let warm = Arc::new(Chunk { core: Arc::clone(&core), progress: progress.clone(), stop: stop.clone() });
        let chunks = keys.ready_chunks(chunk.get()).map(|keys| Arc::clone(&warm).warm(keys));
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
