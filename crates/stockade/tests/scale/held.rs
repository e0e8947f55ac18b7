use std::time::Duration;

use futures_util::future::join_all;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use stockade::{Locks, lock::Guard};
use stockade_testbed::RedisServer;
use tokio::time::{Instant, sleep};

use crate::support::{Item, calls, keys, process, report, turn, until};

const LOCKS: usize = 10_000;
const LEASE: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(60);
/// Leases are renewed at a third of their length.
const PERIODS: f64 = 18.0;

/// The value of a line of the exposition.
fn value(handle: &PrometheusHandle, line: &str) -> Option<f64> {
    let rendered = handle.render();
    rendered.lines().find_map(|text| text.strip_prefix(line)).and_then(|value| value.trim().parse().ok())
}

/// Runs on one thread, to which the recorder belongs.
#[tokio::test]
async fn ten_thousand_locks_are_kept_for_a_minute() {
    let _turn = turn().await;
    let quantiles = PrometheusBuilder::new().set_quantiles(&[0.5, 0.99, 1.0]).unwrap();
    let recorder = quantiles.build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let server = RedisServer::start().await.unwrap();
    let locks = process(&server.url(), Locks::builder().lease(LEASE)).await;

    let began = Instant::now();
    let mut guards: Vec<Guard> = Vec::with_capacity(LOCKS);
    for first in (0..LOCKS).step_by(100) {
        let some = (first..first + 100).map(|n| locks.write(&Item(n.to_string())).acquire());
        guards.extend(join_all(some).await.into_iter().map(Result::unwrap));
    }
    let took = began.elapsed();
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let end = Instant::now() + HOLD;
    while Instant::now() < end {
        assert!(guards.iter().all(Guard::is_held), "lost: {:?}", guards.iter().find_map(Guard::loss));
        // Samples count by the time at which they are taken in.
        handle.run_upkeep();
        sleep(Duration::from_millis(250)).await;
    }
    let calls = calls(&server).await;
    let scripts = calls["evalsha"] as f64 / PERIODS;
    let lag = |quantile: &str| {
        let line = format!("stockade_lock_renewal_lag_seconds{{quantile=\"{quantile}\"}}");
        Duration::from_secs_f64(value(&handle, &line).expect("no lag was measured"))
    };
    let (p50, p99, max) = (lag("0.5"), lag("0.99"), lag("1"));
    report(&format!(
        "{LOCKS} locks of one process, lease {LEASE:?}, acquired in {took:?} and held for {HOLD:?}: none lost; {scripts:.0} \
         renewal scripts per period of {:?}; renewals late by {p50:?} (p50), {p99:?} (p99), {max:?} (max)",
        LEASE / 3
    ));
    // One script per bucket, and one more for those whose first renewal is not on the grid yet.
    assert!(scripts <= 600.0, "{calls:?}");
    // Each is renewed once per period: GET and SET of its state.
    let renewals = calls["set"] as f64 / PERIODS;
    assert!((LOCKS as f64 * 0.9..LOCKS as f64 * 1.1).contains(&renewals), "{renewals} per period");
    assert!(p99 < LEASE / 3 / 10, "renewals are late by {p99:?}");

    drop(guards);
    until("all are given back", async || keys(&server).await.is_empty()).await;
}
