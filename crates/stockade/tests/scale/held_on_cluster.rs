use std::{collections::HashSet, slice, time::Duration};

use stockade::{
    Locks, Redis,
    lock::{Guard, LossReason},
};
use stockade_testbed::RedisCluster;
use tokio::time::{Instant, sleep};

use crate::{
    held::watched,
    support::{half, keys, report, take_all, until},
};

const LOCKS: usize = 3_000;
const LEASE: Duration = Duration::from_secs(10);
/// How long one of three primaries is silent: longer than a lease.
const SILENCE: Duration = Duration::from_secs(15);

/// The renewals for the silent node are tried again and again, and are measured too. Renewals for the other nodes that
/// waited for them would be late, or missing.
#[tokio::test]
async fn a_primary_that_says_nothing_makes_no_renewal_on_others_late() {
    let _half = half().await;
    // By default all nodes refuse commands while one of them is down.
    let cluster = RedisCluster::builder().without_replicas().arg("--cluster-require-full-coverage").arg("no");
    let cluster = cluster.start().await.unwrap();
    let silent = &cluster.nodes()[0];
    let redis = Redis::connect(cluster.url()).await.unwrap();
    let (locks, scout) = (Locks::builder().lease(LEASE).redis(&redis), Locks::builder().lease(LEASE).redis(&redis));
    until("a connection", async || locks.list(1).await.is_ok()).await;

    let names: Vec<String> = (0..LOCKS).map(|number| number.to_string()).collect();
    let seen = take_all(slice::from_ref(&scout), names.clone()).await;
    let there = keys(silent).await;
    let there: HashSet<_> = there.iter().filter_map(|key| key.rsplit(':').next()).collect();
    let (there, elsewhere): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| there.contains(name.as_str()));
    drop(seen);
    let none_is_held = async || locks.list(1).await.is_ok_and(|held| held.is_empty());
    until("all are given back", none_is_held).await;

    let elsewhere = take_all(slice::from_ref(&locks), elsewhere).await;
    let there = take_all(slice::from_ref(&locks), there).await;
    // By then all locks are on the grid of their renewals.
    sleep(LEASE / 2).await;
    let before = watched(&elsewhere, SILENCE).await;
    silent.pause().unwrap();
    let since = Instant::now();
    let lag = watched(&elsewhere, SILENCE).await;
    let silence = since.elapsed();
    silent.resume().unwrap();
    report(&format!(
        "{LOCKS} locks of one process on a cluster, one of its three primaries silent for {silence:.1?} with {} of them: none \
         of the other {} lost; {} renewals of all late by {lag}; in the {SILENCE:?} before by {before}",
        there.len(),
        elsewhere.len(),
        lag.renewals,
    ));
    assert!(there.iter().all(|guard| guard.loss() == Some(LossReason::Expired)), "not told at the end of the lease");
    let due = elsewhere.len() as f64 * (silence.as_secs_f64() / (LEASE / 3).as_secs_f64());
    assert!(lag.renewals > due * 0.8, "{} renewals for {due}", lag.renewals);
    // Renewals that waited for the silent node would be late by seconds. A busy machine may stop for one now and then.
    assert!(lag.p99 < LEASE / 9, "renewals are late by {lag}, before by {before}");
    assert!(elsewhere.iter().all(Guard::is_held));
    drop((there, elsewhere));
    until("all are given back", none_is_held).await;
}
