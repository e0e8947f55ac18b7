use std::{borrow::Cow, convert::Infallible, hint::black_box, sync::Arc, thread, time::Duration};

use futures_util::FutureExt;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter, sync::DefaultLifecycle};
use stockade::{Cache, Redis, Resource, cache::Source};
use stockade_testbed::RedisServer;
use tokio::time::{Instant, sleep};

use crate::{contender::Failure, measure::median};

const KEYS: usize = 1000;
const HITS: u32 = 200_000;
const ROUNDS: usize = 15;

/// A value, what it weighs, and when it ends.
type Held = (Arc<str>, u64, Instant);

/// One store for values in the memory of a process.
struct Store {
    name: &'static str,
    put: Box<dyn Fn(Arc<str>, Held) + Send + Sync>,
    hit: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// How many there are, and what they weigh together.
    held: Box<dyn Fn() -> (usize, u64) + Send + Sync>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Arc<str>, Held> for Weight {
    fn weight(&self, _: &Arc<str>, held: &Held) -> u64 {
        held.1
    }
}

fn quick(name: &'static str, shards: usize, capacity: u64, ends: bool) -> Result<Store, Failure> {
    let mut options = OptionsBuilder::new();
    options.shards(shards).estimated_items_capacity(10_000).weight_capacity(capacity);
    let cache = Arc::new(quick_cache::sync::Cache::with_options(
        options.build()?,
        Weight,
        DefaultHashBuilder::default(),
        DefaultLifecycle::default(),
    ));
    let [put, hit, held] = [Arc::clone(&cache), Arc::clone(&cache), cache];
    Ok(Store {
        name,
        put: Box::new(move |key, value| put.insert(key, value)),
        hit: Box::new(move |key| hit.get(key).is_some_and(|(_, _, end)| !ends || Instant::now() < end)),
        held: Box::new(move || held.iter().fold((0, 0), |(len, sum), (_, (_, weight, _))| (len + 1, sum + weight))),
    })
}

fn moka(name: &'static str, capacity: u64, ends: bool) -> Store {
    let weigh = |_: &Arc<str>, held: &Held| u32::try_from(held.1).unwrap_or(u32::MAX);
    let builder = moka::sync::Cache::builder().max_capacity(capacity).weigher(weigh);
    let builder = if ends { builder.time_to_live(Duration::from_secs(600)) } else { builder };
    let cache: moka::sync::Cache<Arc<str>, Held> = builder.build();
    let [put, hit, held] = [cache.clone(), cache.clone(), cache];
    Store {
        name,
        put: Box::new(move |key, value| put.insert(key, value)),
        hit: Box::new(move |key| hit.get(key).is_some()),
        held: Box::new(move || held.iter().fold((0, 0), |(len, sum), (_, (_, weight, _))| (len + 1, sum + weight))),
    }
}

fn stores(capacity: u64) -> Result<Vec<Store>, Failure> {
    Ok(vec![
        quick("quick_cache, 8 shards", 8, capacity, false)?,
        quick("quick_cache, 8 shards, end compared", 8, capacity, true)?,
        quick("quick_cache, 1 shard, end compared", 1, capacity, true)?,
        moka("moka", capacity, false),
        moka("moka, time to live", capacity, true),
    ])
}

fn value(weight: u64) -> Held {
    (Arc::from("value"), weight, Instant::now() + Duration::from_secs(600))
}

fn key(number: usize) -> Arc<str> {
    Arc::from(format!("stock:{number:010}"))
}

/// Nanoseconds for each call, on one thread and for each of two.
fn hits(hit: &(dyn Fn(usize) + Sync)) -> [f64; 2] {
    let run = || {
        let began = Instant::now();
        for i in 0..HITS as usize {
            hit(i.wrapping_mul(7919) % KEYS);
        }
        began.elapsed().as_secs_f64() * 1e9 / f64::from(HITS)
    };
    [1, 2].map(|threads| {
        let round = || {
            thread::scope(|scope| {
                let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                let each = running.into_iter().filter_map(|thread| thread.join().ok());
                each.sum::<f64>() / f64::from(threads)
            })
        };
        median((0..ROUNDS).map(|_| round()).collect())
    })
}

/// The stores that could be the in-process tier: hits, exactness of the bound, memory.
pub(crate) fn candidates() -> Result<String, Failure> {
    let mut text = format!(
        "stores for the tier in the process\n{:44}{:>10}{:>14}{:>16}{:>14}\n",
        "", "ns a hit", "on 2 threads", "heaviest, of 1", "bytes each"
    );
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let bounded = stores(10_000_000)?;
    for (number, store) in stores(100_000_000)?.iter().enumerate() {
        for key in &keys {
            (store.put)(Arc::clone(key), value(100));
        }
        let [one, two] = hits(&|i| {
            black_box((store.hit)(&keys[i]));
        });
        let heaviest = overshoot(&bounded[number]);
        let each = memory(number)?;
        text += &format!("{:44}{one:>10.0}{two:>14.0}{heaviest:>16.3}{each:>14.0}\n", store.name);
    }
    Ok(text)
}

/// The most that a store of ten million holds while values of all sizes are put, as a part of that.
fn overshoot(store: &Store) -> f64 {
    let (mut heaviest, mut random) = (0, 1_u64);
    for i in 0..50_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (store.put)(key(i % 20_000), value(100 + (random >> 33) % 20_000));
        if i % 50 == 0 {
            heaviest = heaviest.max((store.held)().1);
        }
    }
    f64::from(u32::try_from(heaviest).unwrap_or(u32::MAX)) / 10_000_000.0
}

/// Bytes that the store takes for each entry, its key and value included.
fn memory(number: usize) -> Result<f64, Failure> {
    const ENTRIES: u32 = 100_000;
    let mut kept = None;
    let mut failed = None;
    let taken = allocation_counter::measure(|| match stores(u64::MAX >> 8) {
        Ok(mut stores) => {
            let store = stores.swap_remove(number);
            for i in 0..ENTRIES as usize {
                (store.put)(key(i), value(1));
            }
            let len = (store.held)().0;
            kept = Some((store, len));
        }
        Err(error) => failed = Some(error),
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let len = kept.as_ref().map_or(1, |(_, len)| *len);
    let bytes = u32::try_from(taken.bytes_current.max(0)).unwrap_or(u32::MAX);
    Ok(f64::from(bytes) / f64::from(u32::try_from(len.max(1))?))
}

#[derive(Clone)]
struct Page(String);

impl Resource for Page {
    const KIND: &'static str = "page";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

/// The whole of a hit in the process, with its metrics counted by a Prometheus recorder.
pub(crate) async fn whole(server: &RedisServer) -> Result<String, Failure> {
    let redis = Redis::connect(server.url()).await?;
    let load = |_: Page| async { Ok::<_, Infallible>(Some("x".repeat(256))) };
    let cache = Cache::builder(&redis).name("whole").local(16 << 20).loader(load).build();
    let pages: Vec<_> = (0..KEYS).map(|i| Page(format!("{i:010}"))).collect();
    for page in &pages {
        while cache.get(page).await?.info.source != Source::Local {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let hit = |i: usize| {
        black_box(cache.get(&pages[i]).now_or_never());
    };
    let [one, two] = tokio::task::block_in_place(|| hits(&hit));
    let taken = allocation_counter::measure(|| (0..KEYS).for_each(hit));
    let heading =
        format!("a whole hit in the process\n{:44}{:>10}{:>14}{:>16}\n", "", "ns", "on 2 threads", "allocations");
    let allocations = taken.count_total / u64::try_from(KEYS)?;
    Ok(heading + &format!("{:44}{one:>10.0}{two:>14.0}{allocations:>16}\n", "stockade, metrics counted"))
}
