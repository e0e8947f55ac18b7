//! Which writes a read may miss, by `CACHE_MODE`.

use std::collections::BTreeMap;

use serde_json::Value;
use stockade_testbed::{Fault, Proxy};

use crate::{
    stage::{Instance, Stage, until},
    support::{figure, fleet},
};

const OPENING: i64 = 1000;

/// Two instances with a proxy each to the Redis of the cache, and stock of `one`.
struct Pair {
    stage: Stage,
    instances: [Instance; 2],
    ways: [Proxy; 2],
    quantity: i64,
}

impl Pair {
    async fn start(mode: &str) -> Self {
        let stage = Stage::start().await;
        let mut instances = Vec::new();
        let ways = [(); 2].map(|()| Proxy::start(stage.redis.addr()));
        let [first, second] = ways;
        let ways = [first.await.unwrap(), second.await.unwrap()];
        for way in &ways {
            let url = way.url_for(&stage.redis.url());
            instances.extend(fleet(&stage, 1, &[("CACHE_MODE", mode), ("CACHE_REDIS_URL", &url)]).await);
        }
        let instances = <[_; 2]>::try_from(instances).ok().unwrap();
        instances[0].put("one", OPENING).await;
        Self { stage, instances, ways, quantity: OPENING }
    }

    /// The quantity at the second instance, and its source.
    async fn read(&self) -> (i64, String) {
        let answer = self.instances[1].get("/stock/one").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        (answer.json()["quantity"].as_i64().unwrap(), answer.header("cache-status").to_owned())
    }

    async fn until_read_from(&self, source: &str) {
        until(source, async || self.read().await.1.ends_with(source)).await;
    }

    /// The first instance takes a unit. The second is read as soon as that write is acknowledged.
    async fn take_and_read(&mut self, times: usize) {
        for _ in 0..times {
            let taken = self.instances[0].adjust("one", -1).await;
            assert_eq!(taken.status, 200, "{taken:?}");
            self.quantity -= 1;
            let (quantity, from) = self.read().await;
            assert_eq!(quantity, self.quantity, "older than a write that was acknowledged: {from}");
        }
    }

    /// How often Redis ran each command during fifty reads in a row.
    async fn commands_of_fifty_reads(&self) -> BTreeMap<String, u64> {
        let before = self.stage.redis.calls().await.unwrap();
        for _ in 0..50 {
            assert_eq!(self.read().await.0, self.quantity);
        }
        let mut after = self.stage.redis.calls().await.unwrap();
        for (command, calls) in &mut after {
            *calls -= before.get(command).unwrap_or(&0);
        }
        after.retain(|_, calls| *calls > 0);
        after
    }
}

#[tokio::test]
async fn a_strict_read_misses_no_write_that_was_acknowledged() {
    let mut pair = Pair::start("strict").await;
    pair.until_read_from("detail=redis").await;
    let commands = pair.commands_of_fifty_reads().await;
    figure(&format!("fifty strict reads: {commands:?}"));
    assert!(commands.get("hget").is_some_and(|calls| *calls >= 50), "every read asks Redis: {commands:?}");
    pair.take_and_read(20).await;

    pair.ways[1].set(Fault::Hole);
    pair.take_and_read(3).await;
    assert!(pair.read().await.1.contains("fwd=uri-miss"), "cut off from Redis it asks the database");
    pair.ways[1].set(Fault::None);
    pair.take_and_read(10).await;
    pair.until_read_from("detail=redis").await;
    pair.take_and_read(10).await;

    // A write that can't be announced is refused.
    pair.ways[0].set(Fault::Hole);
    let refused = pair.instances[0].adjust("one", -1).await;
    assert_eq!((refused.status.as_u16(), refused.json()["applied"].clone()), (503, Value::Bool(false)), "{refused:?}");
    assert_eq!(refused.problem(), "strict-cache-unavailable");
    assert!(!refused.header("retry-after").is_empty(), "{refused:?}");
    assert_eq!(pair.read().await.0, pair.quantity);
    assert_eq!(pair.stage.count("select quantity from stock where sku = 'one'").await, pair.quantity);
    pair.ways[0].set(Fault::None);
    until("it takes writes again", async || pair.instances[0].put("other", 1).await.status.is_success()).await;
    pair.take_and_read(3).await;
}

#[tokio::test]
async fn an_eventual_cache_takes_writes_without_its_redis_and_reads_see_them_later() {
    let mut pair = Pair::start("eventual").await;
    pair.until_read_from("detail=local").await;
    let commands = pair.commands_of_fifty_reads().await;
    figure(&format!("fifty eventual reads: {commands:?}"));
    // Background work is counted, too.
    assert!(commands.get("hget").is_none_or(|calls| *calls < 10), "they do not ask Redis: {commands:?}");
    pair.take_and_read(20).await;

    pair.ways[0].set(Fault::Hole);
    let taken = pair.instances[0].adjust("one", -1).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    pair.quantity -= 1;
    until("the relay of the other instance has told the cache", async || pair.read().await.0 == pair.quantity).await;
}
