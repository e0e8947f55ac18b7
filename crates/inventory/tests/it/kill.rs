//! An instance that is killed (SIGKILL).

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use inventory::{
    orders::OrderLine,
    replay::{Plan, RetryLimits, replay},
    seed::seed,
};
use reqwest::StatusCode;
use tokio::time::Instant;

use crate::{
    stage::Stage,
    stock_db::line,
    support::{alone, assert_conserved, blocked, figure, fleet, lock_keys, send, within},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_an_instance_in_the_middle_of_a_replay_loses_and_repeats_nothing() {
    let _alone = alone().await;
    let stage = Stage::start().await;
    // With seven SKUs and three instances in turn, every SKU is sent to every instance.
    let lines: Vec<OrderLine> = (1..=3_000).map(|number| line(number, &format!("sku-{}", number % 7), -1)).collect();
    seed(&stage.pool, &lines, None).await.unwrap();
    let mut instances = fleet(&stage, 3, &[]).await;
    let plan = Plan {
        lines: lines.clone().into(),
        skipped: BTreeMap::new(),
        targets: instances.iter().map(|instance| instance.url.parse().unwrap()).collect(),
        ops: Vec::new(),
        concurrency: 24.try_into().unwrap(),
        rate: None,
        browse: 0.5,
        limits: RetryLimits { retries: 100, total: Duration::from_secs(60) },
        journal: None,
        run: "kill".to_owned(),
    };

    let written = async || stage.count("select count(*) from movement where kind = 'adjustment'").await;
    let kill = async {
        within(Duration::from_secs(60), "a third of the lines", async || written().await >= 1_000).await;
        instances[0].kill().await;
        written().await
    };
    let (replayed, at_kill) = tokio::join!(replay(plan), kill);
    let replayed = replayed.unwrap();

    assert!(at_kill < 2_500, "the replay was nearly over: {at_kill}");
    assert!(replayed.report.lines.retries > 0, "nobody noticed the death");
    assert_eq!(replayed.report.lines.unknown, 0, "every outcome was learned from another instance");
    let told: Vec<_> = lines.into_iter().zip(replayed.verdicts).collect();
    assert_conserved(&stage, &told).await;
    figure(&format!("killed after {at_kill} of 3,000 lines: {:?}", replayed.report.lines));
    within(Duration::from_secs(15), "every lock is free", async || lock_keys(&stage).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_killed_instance_comes_free_within_its_lease_and_its_waiters_get_it_in_order() {
    const LEASE: Duration = Duration::from_millis(5_750);
    const WAITERS: u64 = 6;
    let _alone = alone().await;
    let stage = Stage::start().await;
    let settings = [
        ("LOCK_WAIT", "4s"),
        ("DATABASE_ACQUIRE_TIMEOUT", "500ms"),
        ("STATEMENT_TIMEOUT", "1s"),
        ("REQUEST_TIMEOUT", "5750ms"),
        ("LOCK_LEASE", "5750ms"),
    ];
    let mut instances = fleet(&stage, 3, &settings).await;
    instances[1].put("held", 100).await;

    // The holder gets stuck on the row, with its lock held and its fence claimed, and dies there.
    let mut row = stage.pool.begin().await.unwrap();
    sqlx::query("select 1 from stock where sku = 'held' for update").execute(&mut *row).await.unwrap();
    let never_answered = line(0, "held", -50);
    {
        let stuck = send(&instances[0], &never_answered);
        tokio::pin!(stuck);
        tokio::select! {
            answer = &mut stuck => panic!("{answer:?}"),
            _ = within(Duration::from_secs(5), "the holder is stuck", async || blocked(&stage).await == 1) => {}
        }
    }
    let killed = Instant::now();
    instances[0].kill().await;
    row.rollback().await.unwrap();

    // A wait is shorter than a lease, so waiters that came right after the kill would give up too early. The lease began
    // some time before the kill: what is left of it leaves the time for all waiters to come.
    let ends_soon = async || {
        let keys = lock_keys(&stage).await;
        let state = keys.iter().find(|key| key.contains("}l:")).unwrap();
        stage.redis.command(&["PTTL", state]).await.unwrap().trim().parse::<u64>().unwrap() < 2_500
    };
    within(LEASE, "the lease ends soon", ends_soon).await;
    let queue = async || -> u64 {
        let mut waiting = 0;
        for key in lock_keys(&stage).await.iter().filter(|key| key.contains("}q:")) {
            waiting += stage.redis.command(&["ZCARD", key]).await.unwrap().trim().parse::<u64>().unwrap();
        }
        waiting
    };
    let lines: Vec<_> = (1..=WAITERS).map(|number| line(number, "held", -1)).collect();
    let waiters = async {
        let mut answers = FuturesUnordered::new();
        for (place, line) in (1..).zip(&lines) {
            answers.push(send(if place % 2 == 0 { &instances[1] } else { &instances[2] }, line));
            let queued = within(Duration::from_secs(2), "the waiter is queued", async || queue().await == place);
            tokio::select! {
                Some(answer) = answers.next() => panic!("{answer:?}"),
                _ = queued => {}
            }
        }
        let mut first = None;
        while let Some(answer) = answers.next().await {
            assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
            first.get_or_insert_with(|| killed.elapsed());
        }
        first.unwrap()
    };
    let free = waiters.await;
    figure(&format!(
        "lease {LEASE:?}: the first waiter was served {free:?} after the kill, all after {:?}",
        killed.elapsed()
    ));
    assert!(free < LEASE + Duration::from_secs(1), "{free:?}");

    let order: Vec<String> =
        sqlx::query_scalar("select reference from movement where sku = 'held' and kind = 'adjustment' order by id")
            .fetch_all(&stage.pool)
            .await
            .unwrap();
    assert_eq!(order, lines.iter().map(OrderLine::reference).collect::<Vec<_>>());
    let last = instances[2].get("/stock/held").await;
    assert_eq!(last.json()["quantity"], 94, "the dead holder's movement was rolled back");
}
