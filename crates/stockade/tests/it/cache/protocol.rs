use std::time::Duration;

use stockade::cache::Source;
use stockade_testbed::RedisServer;
use tokio::task::JoinSet;

use super::support::{Database, Loading, get, process, quantity, reading, sku};

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reads_of_a_cold_key_in_three_processes_are_one_load() {
    let server = RedisServer::start().await.unwrap();
    let database = Database::with(&[("a", 7)]);
    database.slow(Duration::from_millis(200));
    for (id, expected) in [("a", Some(7)), ("absent", None)] {
        let before = database.loads();
        let mut tasks = JoinSet::new();
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.push(process(&server).await.on(&database).await);
        }
        for stocks in &processes {
            for _ in 0..334 {
                reading(&mut tasks, stocks, id);
            }
        }
        while let Some(found) = tasks.join_next().await {
            assert_eq!(quantity(&found.unwrap().unwrap()), expected);
        }
        assert_eq!(database.loads() - before, 1, "{id}");
    }
}

#[tokio::test]
async fn a_hit_is_one_command_and_says_where_it_came_from() {
    let server = RedisServer::start().await.unwrap();
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    let first = get(&stocks, "a").await.info;
    assert_eq!((first.source, first.stored, first.collapsed), (Source::Load, true, false));
    let second = get(&stocks, "a").await;
    assert_eq!(quantity(&second), Some(7));
    assert_eq!((second.info.source, second.info.stored, second.info.degraded), (Source::Redis, false, false));
    stocks.invalidate(&sku("a")).await.unwrap();
    database.write("a", Some(8));
    assert_eq!(quantity(&get(&stocks, "a").await), Some(8));
    assert_eq!(database.loads(), 2);
}
