//! The service while Redis is frozen, dead or not started yet, and its recovery.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use inventory::{orders::OrderLine, replay::Verdict};
use reqwest::{Method, header::IF_NONE_MATCH};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    stage::{Answer, Instance, Stage},
    stock_db::line,
    support::{alone, assert_conserved, blocked, delays, figure, fleet, lock_keys, send, verdict, within},
};

const REDIS_TIMEOUT: Duration = Duration::from_millis(250);
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// The time that is promised on top of a time-out.
const MARGIN: Duration = Duration::from_millis(100);
/// The delay that a busy machine with two cores may add to one answer, or to the slowest of several. The delay of the
/// median is measured.
const SLACK: Duration = Duration::from_millis(400);
/// For so long a process may serve a read from its memory after Redis last answered it.
const SILENCE: Duration = Duration::from_secs(3);
/// The time within which everything must work again.
const RECOVERY: Duration = Duration::from_secs(10);

const SETTINGS: [(&str, &str); 3] = [("REDIS_TIMEOUT", "250ms"), ("LOCK_WAIT", "2s"), ("STATEMENT_TIMEOUT", "3s")];

/// Every adjustment that was sent, with its verdict.
#[derive(Default)]
struct Ledger {
    next: AtomicU64,
    told: Mutex<Vec<(OrderLine, Verdict)>>,
}

impl Ledger {
    async fn adjust(&self, instance: &Instance, sku: &str) -> Answer {
        let line = line(self.next.fetch_add(1, Ordering::Relaxed), sku, -1);
        let answer = send(instance, &line).await;
        self.told.lock().unwrap().push((line, verdict(&answer)));
        answer
    }
}

/// Two readers and a writer per instance, from before the fault until after it.
async fn load(instances: &[Instance], ledger: &Ledger, stop: &CancellationToken) -> Vec<Answer> {
    let each = instances.iter().flat_map(|instance| (0..3).map(move |worker| (instance, worker)));
    let workers = each.map(async |(instance, worker)| {
        let mut answers = Vec::new();
        while !stop.is_cancelled() {
            if worker == 0 {
                ledger.adjust(instance, "busy").await;
            } else {
                answers.push(instance.get("/stock/hot").await);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        answers
    });
    join_all(workers).await.into_iter().flatten().collect()
}

/// Adjustments that are stuck when Redis fails: one past its claim, and one in the queue behind another such holder.
struct Caught {
    past_the_claim: Answer,
    queued: Answer,
    let_go: Duration,
}

/// Holds three adjustments at a certain point, breaks Redis, and lets them go on while others arrive.
async fn caught(stage: &Stage, instances: &[Instance], ledger: &Ledger, fault: impl AsyncFnOnce()) -> Caught {
    let mut rows = stage.pool.begin().await.unwrap();
    sqlx::query("select 1 from stock where sku in ('past', 'queue') for update").execute(&mut *rows).await.unwrap();
    let holders = async { tokio::join!(ledger.adjust(&instances[0], "past"), ledger.adjust(&instances[0], "queue")) };
    let queued = async {
        within(Duration::from_secs(2), "both are past the claim", async || blocked(stage).await == 2).await;
        ledger.adjust(&instances[1], "queue").await
    };
    let break_it = async {
        let waiting = async || lock_keys(stage).await.iter().any(|key| key.ends_with("}q:stock:queue"));
        within(Duration::from_secs(2), "one is queued", waiting).await;
        fault().await;
        let let_go = async {
            rows.rollback().await.unwrap();
            Instant::now()
        };
        tokio::join!(let_go, refused(instances, ledger)).0
    };
    let started = Instant::now();
    let ((past, first), queued, let_go) = tokio::join!(holders, queued, break_it);
    assert_eq!(first.status, 200, "{first:?}");
    Caught { past_the_claim: past, queued, let_go: let_go - started }
}

/// Sends eight adjustments of a SKU that nobody has locked, all at once. Each must be refused.
async fn refused(instances: &[Instance], ledger: &Ledger) {
    let adjust = join_all((0..8).map(|n| ledger.adjust(&instances[n % 2], "new")));
    let (answers, delay) = delays(instances, adjust).await;
    let mut took: Vec<_> = answers.iter().map(|answer| answer.took).collect();
    took.sort_unstable();
    for answer in &answers {
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (503, "lock-store-unavailable"), "{answer:?}");
        assert_eq!(answer.json()["applied"], false, "{answer:?}");
        assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    }
    figure(&format!("refusals while it is away: median {:?}, slowest {:?} (delays {delay:?})", took[4], took[7]));
    assert!(took[4] <= REDIS_TIMEOUT + MARGIN + delay, "{took:?}, delays {delay:?}");
    assert!(took[7] <= REDIS_TIMEOUT + MARGIN + SLACK, "{took:?}, delays {delay:?}");
}

/// After a few failures the breaker refuses adjustments at once. Now and then it lets one through, which times out.
async fn refused_at_once(instances: &[Instance], ledger: &Ledger) {
    let ask = async {
        let mut answers = Vec::new();
        for _ in 0..21 {
            answers.push(ledger.adjust(&instances[0], "new").await);
        }
        answers
    };
    let (answers, delay) = delays(instances, ask).await;
    let mut took = Vec::new();
    for answer in answers {
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (503, "lock-store-unavailable"), "{answer:?}");
        took.push(answer.took);
    }
    took.sort_unstable();
    figure(&format!("refusals by the open breaker: median {:?}, slowest {:?} (delays {delay:?})", took[10], took[20]));
    assert!(took[10] <= MARGIN / 2 + delay, "{took:?}, delays {delay:?}");
}

/// Reads still work. Once the memory of the process may not answer them any more, they are marked as degraded, and never
/// answered with "not modified".
async fn degraded_reads(instances: &[Instance], etag: &str) {
    let marked = async || instances[1].get("/stock/hot").await.header("cache-status").contains("detail=degraded");
    let took = within(SILENCE + MARGIN, "reads are marked", marked).await;
    figure(&format!("reads are marked {took:?} after the refusals"));
    let read = async {
        let mut answers = Vec::new();
        for _ in 0..21 {
            let request = instances[1].request(Method::GET, "/stock/hot").header(IF_NONE_MATCH, etag);
            answers.push(Answer::to(request).await);
        }
        answers
    };
    let (answers, delay) = delays(instances, read).await;
    let mut took = Vec::new();
    for answer in answers {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.header("cache-status").contains("detail=degraded"), "{answer:?}");
        assert_eq!(answer.header("etag"), "", "{answer:?}");
        took.push(answer.took);
    }
    took.sort_unstable();
    figure(&format!("degraded reads: median {:?}, slowest {:?} (delays {delay:?})", took[10], took[20]));
    assert!(took[10] <= MARGIN / 2 + delay, "{took:?}, delays {delay:?}");
}

/// Every instance works again without a restart, and no key is left behind.
async fn recovered(stage: &Stage, instances: &mut [Instance], ledger: &Ledger) {
    for instance in &*instances {
        let writes = async || ledger.adjust(instance, "new").await.status == 200;
        let took = within(RECOVERY, "writes", writes).await;
        let reads = async || {
            let answer = instance.get("/stock/hot").await;
            assert_eq!(answer.status, 200, "{answer:?}");
            !answer.header("cache-status").contains("degraded") && !answer.header("etag").is_empty()
        };
        within(RECOVERY, "reads", reads).await;
        let ready = async || instance.get("/readyz").await.json()["status"] == "ready";
        within(RECOVERY, "ready", ready).await;
        figure(&format!("writes again {took:?} after Redis was back"));
    }
    for instance in instances {
        assert!(instance.is_running(), "{}", instance.log());
    }
    // An entry of a waiter that could not be removed expires 12 s after the end of its wait.
    let limit = LOCK_WAIT + Duration::from_secs(13);
    let took = within(limit, "no stuck key", async || lock_keys(stage).await.is_empty()).await;
    figure(&format!("the last key of a lock was gone {took:?} later"));
    let told = std::mem::take(&mut *ledger.told.lock().unwrap());
    assert_conserved(stage, &told).await;
}

async fn stocked(stage: &Stage, instance: &Instance) {
    for sku in ["hot", "busy", "past", "queue", "new"] {
        instance.put(sku, 1_000_000).await;
    }
    // A release that got no answer in time goes on in the background.
    within(Duration::from_secs(5), "no key of a lock", async || lock_keys(stage).await.is_empty()).await;
}

async fn outage(fault: impl AsyncFnOnce(&Stage), heal: impl AsyncFnOnce(&Stage)) {
    let _alone = alone().await;
    let stage = Stage::start().await;
    let mut instances = fleet(&stage, 2, &SETTINGS).await;
    let ledger = Ledger::default();
    stocked(&stage, &instances[0]).await;
    let mut etag = String::new();
    for instance in &instances {
        let hit = async || instance.get("/stock/hot").await.header("cache-status").contains("hit");
        within(Duration::from_secs(5), "a cached read", hit).await;
        etag = instance.get("/stock/hot").await.header("etag").to_owned();
    }

    let stop = CancellationToken::new();
    let scenario = async {
        let caught = caught(&stage, &instances, &ledger, async || fault(&stage).await).await;
        refused_at_once(&instances, &ledger).await;
        degraded_reads(&instances, &etag).await;
        heal(&stage).await;
        stop.cancel();
        caught
    };
    let (caught, reads) = tokio::join!(scenario, load(&instances, &ledger, &stop));
    for read in &reads {
        assert_eq!(read.status, 200, "{read:?}");
    }
    let degraded = reads.iter().filter(|read| read.header("cache-status").contains("detail=degraded")).count();
    figure(&format!("reads under load: {}, all 200, {degraded} of them marked", reads.len()));
    assert!(degraded > 0);

    let after = caught.past_the_claim.took.saturating_sub(caught.let_go);
    figure(&format!("past its claim: {} after {after:?}", caught.past_the_claim.status));
    assert_eq!(caught.past_the_claim.status, 200, "{:?}", caught.past_the_claim);
    assert!(after <= 2 * REDIS_TIMEOUT + SLACK, "{after:?}");
    figure(&format!("queued: {} {} after {:?}", caught.queued.status, caught.queued.problem(), caught.queued.took));
    assert!(matches!(caught.queued.status.as_u16(), 423 | 503), "{:?}", caught.queued);
    assert!(caught.queued.took <= LOCK_WAIT + REDIS_TIMEOUT + SLACK, "{:?}", caught.queued);

    recovered(&stage, &mut instances, &ledger).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_costs_writes_a_time_out_and_reads_nothing_but_their_mark() {
    outage(async |stage| stage.redis.pause().unwrap(), async |stage| stage.redis.resume().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_and_comes_back_empty_is_taken_up_again() {
    outage(async |stage| stage.redis.kill().await.unwrap(), async |stage| stage.redis.restart().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_starts_without_redis_and_takes_it_up_when_it_comes() {
    let _alone = alone().await;
    let stage = Stage::start().await;
    let first = stage.serve(&SETTINGS).await;
    stocked(&stage, &first).await;
    drop(first);
    stage.redis.kill().await.unwrap();

    let mut instances = fleet(&stage, 2, &SETTINGS).await;
    let ledger = Ledger::default();
    assert_eq!(instances[0].get("/readyz").await.json()["status"], "degraded");
    refused(&instances, &ledger).await;
    refused_at_once(&instances, &ledger).await;
    degraded_reads(&instances, "\"1\"").await;

    stage.redis.restart().await.unwrap();
    recovered(&stage, &mut instances, &ledger).await;
}
