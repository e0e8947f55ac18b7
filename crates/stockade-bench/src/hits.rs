//! Hits: whether they are, and the time of those in the process, by calls without a pause between them.

use std::{thread, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use stockade::{Cache, Resource, cache::Source};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::{contender::Failure, report::quantile};

/// How many keys the hits are spread over.
pub(crate) const KEYS: usize = 1000;
const HITS: u32 = 200_000;
const ROUNDS: usize = 15;

/// Reads until the value comes from `source`. A cache that is not connected yet loads past Redis.
pub(crate) async fn warm<K, V>(cache: &Cache<K, V>, key: &K, source: Source) -> Result<(), Failure>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    while cache.get(key).await?.info.source != source {
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Reads a value, which has to come from `source`.
pub(crate) async fn hit<K, V>(cache: &Cache<K, V>, key: &K, source: Source) -> Result<(), Failure>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let found = cache.get(key).await?.info.source;
    if found == source { Ok(()) } else { Err(format!("a value came from {found:?}, not from {source:?}").into()) }
}

/// Nanoseconds for each call, on one thread and for each of two; every thread makes its own hits. A call says whether
/// it was a hit.
pub(crate) fn nanoseconds<H: FnMut(usize) -> bool>(make: &(impl Fn() -> H + Sync)) -> Result<[f64; 2], Failure> {
    let runtime = Handle::current();
    let run = || {
        // A call that misses the memory asks Redis, which needs the runtime.
        let _inside = runtime.enter();
        let (mut hit, mut all) = (make(), true);
        let began = Instant::now();
        for i in 0..HITS as usize {
            all &= hit(i.wrapping_mul(7919) % KEYS);
        }
        all.then(|| began.elapsed().as_secs_f64() * 1e9 / f64::from(HITS))
    };
    let round = |threads: u32| -> Result<f64, Failure> {
        let times = thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            running.into_iter().map(thread::ScopedJoinHandle::join).collect::<Result<Option<Vec<_>>, _>>()
        });
        let times =
            times.map_err(|_| "a thread that makes hits panicked")?.ok_or("a call was no hit in the process")?;
        Ok(times.iter().sum::<f64>() / f64::from(threads))
    };
    let median =
        |threads| (0..ROUNDS).map(|_| round(threads)).collect::<Result<_, _>>().map(|times| quantile(times, 0.5));
    Ok([median(1)?, median(2)?])
}
