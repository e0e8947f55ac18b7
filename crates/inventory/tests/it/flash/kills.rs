//! A sale during which every server and process is killed once.

use std::{collections::HashSet, time::Duration};

use futures_util::{StreamExt, stream};
use reqwest::StatusCode;
use stockade_testbed::RedisServer;
use tokio::{sync::Mutex, time::Instant};

use super::{assert_conserved, open, reservation_at, reserve, until_closed, until_open};
use crate::{
    stage::{Answer, Stage},
    support::{alone, blocked, figure, fleet, within},
};

/// The limit for each wait. Only a failing test reaches it.
const LIMIT: Duration = Duration::from_secs(120);

/// The numbers of requests and of units. `FLASH_REQUESTS=20000` makes a long run.
fn scale() -> (usize, i64) {
    let requests = std::env::var("FLASH_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000_usize);
    (requests, i64::try_from(requests / 4).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_kills_oversell_nothing_and_store_every_acknowledged_reservation_once() {
    let _alone = alone().await;
    let (requests, units) = scale();
    let mut stage = Stage::start().await;
    // With `everysec` a kill could lose reservations that were acknowledged but not yet in the file.
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    stage.redis = RedisServer::builder().args(durable).start().await.unwrap();
    let mut instances = fleet(&stage, 3, &[]).await;
    instances[0].put("A", units).await;
    assert_eq!(open(&instances[0], "A", units, units / 100).await.status, StatusCode::CREATED);
    let [first, second, third] = instances.as_mut_slice() else { unreachable!() };

    let told: Mutex<Vec<String>> = Mutex::default();
    let made = async || i64::try_from(told.lock().await.len()).unwrap();
    // 300 customers ask for more than their limit allows. Each request is repeated with its key until it is decided,
    // after two attempts by the instance that survives.
    let load = stream::iter(0..requests).for_each_concurrent(48, |number| {
        let (told, third) = (&told, &*third);
        let urls = [first.url.clone(), second.url.clone()];
        async move {
            let (customer, key) = (format!("customer-{}", number % 300), format!("request-{number}"));
            let began = Instant::now();
            for attempt in 0_usize.. {
                let url = urls.get((number + attempt) % 3).filter(|_| attempt < 2).unwrap_or(&third.url);
                let request = reservation_at(third, url, &customer, &key);
                let answer = request.send().await;
                match answer {
                    Ok(response) if response.status() == StatusCode::CREATED => {
                        let id = Answer::of(response).await.json()["id"].as_str().unwrap().to_owned();
                        return told.lock().await.push(id);
                    }
                    Ok(response) if response.status() == StatusCode::CONFLICT => return,
                    _ => {
                        assert!(began.elapsed() < LIMIT, "{key} is still not decided: {answer:?}");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        }
    });
    let kills = async {
        for (part, who) in [(5, 0), (3, 1), (2, 2)] {
            within(LIMIT, "a part is sold", async || made().await >= units / part).await;
            match who {
                0 => first.kill_under_way(),
                1 => second.kill_under_way(),
                _ => {
                    stage.redis.kill().await.unwrap();
                    stage.redis.restart().await.unwrap();
                }
            }
        }
    };
    let ((), ()) = tokio::join!(load, kills);
    until_open(third).await;
    until_closed(third).await;

    let told = told.into_inner();
    let ids: HashSet<&str> = told.iter().map(String::as_str).collect();
    assert_eq!(ids.len(), told.len(), "no reservation was answered to two requests");
    let stored: Vec<String> =
        sqlx::query_scalar("select id from flash_reservation where stored").fetch_all(&stage.pool).await.unwrap();
    let stored: HashSet<&str> = stored.iter().map(String::as_str).collect();
    let missing: Vec<_> = ids.difference(&stored).collect();
    assert!(missing.is_empty(), "{} were acknowledged and are not stored: {missing:?}", missing.len());
    let sold = stage.count("select sum(quantity)::bigint from flash_reservation where stored").await;
    assert_eq!((sold, stage.count("select stored from flash_sale").await), (units, units), "all are sold, none twice");
    assert_eq!(stage.count("select count(*) from flash_dead_letter").await, 0);
    figure(&format!("{requests} requests, {units} units: {} answered 201, {sold} sold", told.len()));
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_consumer_held_is_stored_before_another_run_of_redis_lets_anybody_in() {
    let _alone = alone().await;
    let mut stage = Stage::start().await;
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    stage.redis = RedisServer::builder().args(durable).start().await.unwrap();
    let mut first = stage.serve(&[]).await;
    first.put("A", 9).await;
    open(&first, "A", 9, 9).await;
    // The consumer has read the entries and waits for the row: it dies before its COMMIT.
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("select from flash_sale for update").execute(&mut *held).await.unwrap();
    for _ in 0..5 {
        assert_eq!(reserve(&first, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    }
    within(Duration::from_secs(10), "it waits", async || blocked(&stage).await == 1).await;
    first.kill().await;
    stage.redis.kill().await.unwrap();
    stage.redis.restart().await.unwrap();
    held.rollback().await.unwrap();

    let second = stage.serve(&[]).await;
    until_open(&second).await;
    assert_eq!(stage.count("select stored from flash_sale").await, 5, "before the counter was made");
    assert_eq!(second.get("/flash/A").await.json()["remaining"], 4);
    until_closed(&second).await;
    assert_eq!(second.get("/stock/A").await.json()["quantity"], 4);
    assert_conserved(&stage).await;
}
