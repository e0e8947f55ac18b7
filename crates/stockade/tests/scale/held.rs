use std::{fmt, slice, time::Duration};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use stockade::{Locks, lock::Guard};
use stockade_testbed::RedisServer;
use tokio::time::{Instant, sleep};

use crate::support::{half, keys, process, report, take_all, until};

const LOCKS: usize = 10_000;
const LEASE: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(30);
/// How many renewals of each lock are due during the test. A lease is renewed at a third of its length.
const PERIODS: f64 = 9.0;

/// How late the renewals were that were sent from this thread.
#[derive(Debug)]
pub(crate) struct Lag {
    pub(crate) renewals: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1?} (p50), {:.1?} (p99), {:.1?} (max)", self.p50, self.p99, self.max)
    }
}

/// Measures for this time how late renewals are, and fails if one of these locks is lost.
#[expect(clippy::future_not_send, reason = "the recorder belongs to the thread of a runtime that has one only")]
pub(crate) async fn watched(guards: &[Guard], for_so_long: Duration) -> Lag {
    let recorder = PrometheusBuilder::new().set_quantiles(&[0.5, 0.99, 1.0]).unwrap().build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let end = Instant::now() + for_so_long;
    while Instant::now() < end {
        assert!(guards.iter().all(Guard::is_held), "lost: {:?}", guards.iter().find_map(Guard::loss));
        // A sample counts from the time of the upkeep that takes it in.
        handle.run_upkeep();
        sleep(Duration::from_millis(250)).await;
    }
    let value = |suffix: &str| {
        let line = format!("stockade_lock_renewal_lag_seconds{suffix}");
        value(&handle, &line).expect("no lag was measured")
    };
    let lag = |quantile: &str| Duration::from_secs_f64(value(&format!("{{quantile=\"{quantile}\"}}")));
    Lag { renewals: value("_count"), p50: lag("0.5"), p99: lag("0.99"), max: lag("1") }
}

/// The value of a line of the exposition.
fn value(handle: &PrometheusHandle, line: &str) -> Option<f64> {
    let rendered = handle.render();
    rendered.lines().find_map(|text| text.strip_prefix(line)).and_then(|value| value.trim().parse().ok())
}

#[tokio::test]
async fn ten_thousand_locks_are_kept_for_three_leases() {
    let _half = half().await;
    let server = RedisServer::start().await.unwrap();
    let locks = process(&server.url(), Locks::builder().lease(LEASE)).await;

    let began = Instant::now();
    let guards = take_all(slice::from_ref(&locks), (0..LOCKS).map(|number| number.to_string())).await;
    let took = began.elapsed();
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let lag = watched(&guards, HOLD).await;
    let calls = server.calls().await.unwrap();
    let scripts = calls["evalsha"] as f64 / PERIODS;
    report(&format!(
        "{LOCKS} locks of one process, lease {LEASE:?}, acquired in {took:?} and held for {HOLD:?}: none lost; {scripts:.0} \
         renewal scripts per period of {:?}; renewals late by {lag}",
        LEASE / 3
    ));
    // A script renews up to a hundred locks. There are more scripts for locks whose first renewal is not on the grid
    // yet.
    assert!(scripts <= 300.0, "{calls:?}");
    // Each lock is renewed once per period, by GET and SET of its state.
    let renewals = calls["set"] as f64 / PERIODS;
    assert!((LOCKS as f64 * 0.9..LOCKS as f64 * 1.1).contains(&renewals), "{renewals} per period");
    assert!(lag.p99 < LEASE / 3 / 10, "renewals are late by {lag}");

    drop(guards);
    until("all are given back", async || keys(&server).await.is_empty()).await;
}
