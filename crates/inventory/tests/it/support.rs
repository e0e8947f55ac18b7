//! Helpers of the fault tests: fleets of instances, lines of the ledger, and direct looks at Redis and Postgres.

use std::time::Duration;

use futures_util::future::join_all;
use inventory::{conservation::check, orders::OrderLine, replay::Verdict};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::stage::{self, Answer, Instance, Stage};

/// Lets one fault test run at a time, since its measurements would include the load of others.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// The longest time that `/healthz`, which waits for nothing, takes to answer while `work` runs. Limits on other
/// answers must allow for this delay.
pub(crate) async fn delays<T>(instances: &[Instance], work: impl Future<Output = T>) -> (T, Duration) {
    let stop = CancellationToken::new();
    let probes = instances.iter().map(async |instance| {
        let mut worst = Duration::ZERO;
        while !stop.is_cancelled() {
            worst = worst.max(instance.get("/healthz").await.took);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        worst
    });
    let work = async {
        let done = work.await;
        stop.cancel();
        done
    };
    let (done, worst) = tokio::join!(work, join_all(probes));
    (done, worst.into_iter().max().unwrap_or_default())
}

/// Starts instances and waits until they are ready.
pub(crate) async fn fleet(stage: &Stage, count: usize, settings: &[(&str, &str)]) -> Vec<Instance> {
    join_all((0..count).map(async |_| {
        let instance = stage.serve(settings).await;
        stage::until("ready", async || instance.get("/readyz").await.status == StatusCode::OK).await;
        instance
    }))
    .await
}

/// Sends a line. Its movement in the ledger has the line's reference.
pub(crate) async fn send(instance: &Instance, line: &OrderLine) -> Answer {
    let body = json!({ "delta": line.delta, "reference": line.reference() });
    let path = format!("/stock/{}/adjustments", line.sku);
    Answer::to(instance.request(Method::POST, &path).json(&body)).await
}

/// The verdict of an answer about the line that was sent.
pub(crate) fn verdict(answer: &Answer) -> Verdict {
    match answer.status {
        StatusCode::OK => Verdict::Applied,
        StatusCode::CONFLICT => Verdict::Refused,
        _ if answer.json()["applied"] == Value::Bool(false) => Verdict::Failed,
        _ => Verdict::Unknown,
    }
}

/// Fails unless stock was conserved and every verdict is true.
pub(crate) async fn assert_conserved(stage: &Stage, told: &[(OrderLine, Verdict)]) {
    let told: Vec<_> = told.iter().map(|(line, verdict)| (line, *verdict)).collect();
    let checked = check(&stage.pool, &told).await.unwrap();
    assert!(checked.holds(), "{checked}");
}

/// The names of the keys in Redis that belong to a lock: state, queue, waiters, shared holders.
pub(crate) async fn lock_keys(stage: &Stage) -> Vec<String> {
    let keys = stage.redis.command(&["KEYS", "*"]).await.unwrap();
    let of_lock = |key: &str| ["}l:", "}q:", "}w:", "}m:"].iter().any(|kind| key.contains(kind));
    keys.lines().filter(|key| of_lock(key)).map(str::to_owned).collect()
}

/// How many sessions wait for a row lock.
pub(crate) async fn blocked(stage: &Stage) -> i64 {
    stage.count("select count(*) from pg_stat_activity where wait_event_type = 'Lock'").await
}

/// Waits until `condition` holds, for `limit` at most. Returns how long it took.
pub(crate) async fn within(limit: Duration, what: &str, condition: impl AsyncFn() -> bool) -> Duration {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}

/// A measured figure, for people who run the test with `--nocapture`.
#[expect(clippy::print_stderr, reason = "read by people, beside the harness's own output")]
pub(crate) fn figure(text: &str) {
    eprintln!("figure: {text}");
}
