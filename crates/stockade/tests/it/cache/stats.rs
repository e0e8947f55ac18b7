//! The counters of the cache, compared with the outcomes of calls and with the calls of the loader.

use std::{collections::HashMap, sync::Arc, time::Duration};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stockade::cache::{CacheError, CacheStats, Lookup, Source};
use tokio::{task::JoinSet, time::timeout};

use super::support::{Database, Loading, Stock, Stocks, held_load, process, sku};
use crate::world::World;

type Found = Result<Lookup<Stock>, CacheError>;

/// The outcomes that callers saw, by their names.
#[derive(Default)]
struct Seen(HashMap<&'static str, u64>);

impl Seen {
    fn add(&mut self, found: &Found) {
        let info = match found {
            Err(CacheError::Shed { .. }) => return *self.0.entry("shed").or_default() += 1,
            Err(_) => return *self.0.entry("error").or_default() += 1,
            Ok(found) => found.info,
        };
        let outcome = match (info.collapsed, info.source, info.stale, info.absent) {
            (true, ..) => "collapsed",
            (_, _, Some(_), _) => "stale",
            (_, Source::Load, ..) => "load",
            (.., true) => "null",
            (_, Source::Redis, ..) => "hit_redis",
            _ => "hit_local",
        };
        *self.0.entry(outcome).or_default() += 1;
    }
}

/// One step of a caller: it gets one value or several, drops one first, writes, or gives up its call.
async fn step(stocks: Stocks, database: Arc<Database>, dice: u32, id: u32) -> Vec<Found> {
    let key = sku(&id.to_string());
    match dice {
        0..50 => vec![stocks.get(&key).await],
        50..60 => stocks.get_many(&[key.clone(), sku("1"), sku("none"), key]).await,
        60..75 => {
            stocks.invalidate(&key).await.unwrap();
            vec![stocks.get(&key).await]
        }
        75..80 => vec![stocks.get(&sku("")).await],
        80..92 => {
            database.write(&id.to_string(), Some(dice.into()));
            stocks.invalidate(&key).await.unwrap();
            Vec::new()
        }
        _ => timeout(Duration::from_micros(200), stocks.get(&key)).await.into_iter().collect(),
    }
}

fn metric(handle: &PrometheusHandle, name: &str) -> HashMap<String, u64> {
    let text = handle.render();
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    lines.map(|(labels, value)| (labels.to_owned(), value.parse().unwrap())).collect()
}

fn requests(stats: &CacheStats) -> [(&'static str, u64); 9] {
    [
        ("hit_local", stats.hits_local),
        ("hit_redis", stats.hits_redis),
        ("stale", stats.stale),
        ("null", stats.null),
        ("bloom_reject", stats.bloom_reject),
        ("load", stats.load),
        ("collapsed", stats.collapsed),
        ("shed", stats.shed),
        ("error", stats.error),
    ]
}

fn loads(stats: &CacheStats) -> [(&'static str, u64); 5] {
    [
        ("ok", stats.loads_ok),
        ("absent", stats.loads_absent),
        ("error", stats.loads_error),
        ("timeout", stats.loads_timeout),
        ("cancelled", stats.loads_cancelled),
    ]
}

/// Runs on one thread, to which the recorder belongs.
#[tokio::test]
async fn every_read_and_every_load_is_counted_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let server = World::start().await;
    let database = Database::with(&[("0", 0), ("1", 1), ("2", 2), ("3", 3)]);
    let short = Duration::from_millis(20)..=Duration::from_millis(60);
    let builder = process(&server).await.local(1 << 20).ttl(short.clone()).null_ttl(*short.end()).max_loads(1);
    let stocks = builder.load_timeout(Duration::from_millis(100)).on(&database).await;

    let seed = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let mut seen = Seen::default();
    for round in 0..40 {
        let mood = round % 10;
        database.slow(Duration::from_millis(if mood == 1 { 150 } else { mood % 3 }));
        database.down(mood == 4);
        database.panics(mood == 7);
        // There are only a few failures in a row, since the breaker would open and shed all later loads.
        let bad = [1, 4, 7].contains(&mood);
        let mut tasks = JoinSet::new();
        for _ in 0..if bad { 3 } else { random.random_range(1..40) } {
            // With these dice the step is a load for certain.
            let dice = if bad { 60 } else { random.random_range(0..100) };
            tasks.spawn(step(stocks.clone(), Arc::clone(&database), dice, random.random_range(0..8)));
        }
        while let Some(found) = tasks.join_next().await {
            found.unwrap().iter().for_each(|found| seen.add(found));
        }
    }
    // A shutdown gives up this load.
    let (_gate, mut tasks) = held_load(&database, &stocks, "9").await;
    stocks.shutdown(Duration::ZERO).await;
    while let Some(found) = tasks.join_next().await {
        seen.add(&found.unwrap());
    }

    let stats = stocks.stats();
    let told = |outcome: &str| seen.0.get(outcome).copied().unwrap_or_default();
    for (outcome, count) in requests(&stats) {
        assert_eq!(told(outcome), count, "{outcome}, seed {seed}: {stats:?}");
    }
    assert_eq!(stats.reads(), seen.0.values().sum::<u64>());
    assert_eq!((stats.loads(), stats.loads_in_flight, stats.fetching), (database.loads() as u64, 0, 0), "{stats:?}");
    for (outcome, count) in loads(&stats) {
        assert!(count > 0, "no load ended as {outcome}, seed {seed}: {stats:?}");
    }
    let exposed = metric(&handle, "stockade_cache_requests_total");
    for (outcome, count) in requests(&stats) {
        assert_eq!(exposed[&format!("{{cache=\"stock\",outcome=\"{outcome}\"}}")], count, "{outcome}");
    }
    let exposed = metric(&handle, "stockade_cache_loads_total");
    for (outcome, count) in loads(&stats) {
        assert_eq!(exposed[&format!("{{cache=\"stock\",outcome=\"{outcome}\"}}")], count, "{outcome}");
    }
    let of_cache = |name| metric(&handle, name)["{cache=\"stock\"}"];
    assert_eq!(of_cache("stockade_cache_load_seconds_count"), stats.loads());
    assert_eq!(of_cache("stockade_cache_loads_in_flight"), 0);
    assert_eq!(of_cache("stockade_cache_fill_rejected_total"), stats.fill_rejected);
    server.end().await;
}
