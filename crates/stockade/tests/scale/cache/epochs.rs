//! One hot key that changes again and again. After each change the whole fleet loads it once.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use stockade::Cache;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    PROCESSES, amount,
    site::{LONG, Seat, Site},
};
use crate::{
    child::{say, wait_for_parent},
    looks::look,
    support::{Item, LIMIT, report, turn, until},
};

const CALLERS: usize = 250;
const SCHEMA: &str = "create table item (epoch int8 not null); insert into item values (0)";

fn item() -> Item {
    Item("hot".to_owned())
}

async fn cache(seat: &Seat, loads: &Arc<AtomicU64>) -> Cache<Item, i64> {
    let (pool, loads) = (seat.pool.clone(), Arc::clone(loads));
    let load = move |_| {
        let (pool, loads) = (pool.clone(), Arc::clone(&loads));
        async move {
            loads.fetch_add(1, Ordering::Relaxed);
            // The load is so slow that all callers come while it runs.
            sqlx::query_scalar::<_, i64>("select epoch from item, pg_sleep(0.02)").fetch_optional(&pool).await
        }
    };
    let cache = Cache::builder(&seat.redis).load_timeout(LONG).loader(load).build();
    until("a connection", async || !cache.is_degraded()).await;
    cache
}

/// A process. Each time that the parent tells it to go on, all its callers read.
pub(super) async fn call(role: &str, seat: Seat) {
    let loads = Arc::new(AtomicU64::new(0));
    let cache = cache(&seat, &loads).await;
    cache.get(&item()).await.unwrap();
    say("ready");
    for _ in 0..role.parse().unwrap() {
        wait_for_parent().await;
        let before = loads.load(Ordering::Relaxed);
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let cache = cache.clone();
            callers.spawn(async move { *cache.get(&item()).await.unwrap().value.unwrap() });
        }
        let values: BTreeSet<i64> = callers.join_all().await.into_iter().collect();
        say(&format!("{} {values:?}", loads.load(Ordering::Relaxed) - before));
    }
    assert_eq!(cache.stats().fetching, 0, "a flight is left");
    cache.shutdown(Duration::from_secs(5)).await;
    seat.pool.close().await;
    say("over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_epoch_of_a_hot_key_is_one_load_of_the_fleet() {
    let _turn = turn().await;
    let epochs: i64 = amount(50, 500);
    let site = Site::start(SCHEMA).await;
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        processes.push(site.process(&format!("epochs {epochs}")).await);
    }
    let writer = cache(&site.seat().await, &Arc::default()).await;
    let began = Instant::now();
    for epoch in 1..=epochs {
        sqlx::query("update item set epoch = $1").bind(epoch).execute(&site.pool).await.unwrap();
        writer.invalidate(&item()).await.unwrap();
        for process in &mut processes {
            process.go_on().await;
        }
        let (mut loads, expected) = (0, format!("{{{epoch}}}"));
        for process in &mut processes {
            let said = timeout(LIMIT, process.next()).await.expect("a process hangs");
            let (count, values) = said.split_once(' ').unwrap();
            assert_eq!(values, expected, "what the callers of a process were given");
            loads += count.parse::<u64>().unwrap();
        }
        assert_eq!(loads, 1, "loads in epoch {epoch}");
        let looked = look(&site.redis).await;
        assert_eq!((looked.values, looked.loads), (1, 0), "{looked:?}");
    }
    report(&format!(
        "{epochs} epochs of a hot key, {PROCESSES} processes with {CALLERS} callers each: {epochs} loads, in {:?}",
        began.elapsed()
    ));
    for process in &mut processes {
        process.says("over").await;
    }
    drop(processes);
    writer.shutdown(Duration::ZERO).await;
    drop(writer);
    site.until_nothing_is_left().await;
}
