//! What the loss of a primary costs holders of locks and waiters. `STOCKADE_FAILOVERS` sets how often each test loses a
//! primary: once by default, and more often for figures.

use std::time::Duration;

use stockade_testbed::{RedisCluster, RedisServer, SentinelGroup};
use tokio::time::Instant;

use crate::{
    group::Group,
    load::{Fate, LEASE, Load, Tally},
    support::{half, report},
};

/// How a primary is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// `kill -9`. The system closes the connections.
    Killed,
    /// The machine is lost or cut off. The primary answers nothing, closes nothing and comes back as it was.
    Silent,
}

impl Loss {
    async fn cause(self, primary: &RedisServer) {
        match self {
            Self::Killed => primary.kill().await.unwrap(),
            Self::Silent => primary.pause().unwrap(),
        }
    }

    async fn mend(self, primary: &RedisServer) {
        match self {
            Self::Killed => primary.restart().await.unwrap(),
            Self::Silent => primary.resume().unwrap(),
        }
    }
}

fn times() -> usize {
    std::env::var("STOCKADE_FAILOVERS").ok().map_or(1, |times| times.parse().expect("STOCKADE_FAILOVERS is a number"))
}

async fn measure(group: Group, loss: Loss, name: &str) {
    let mut load = Load::start(&group).await;
    let (mut fates, mut outages) = (Vec::new(), Vec::new());
    let (mut later, mut unasked) = (0, 0);
    for round in 0..times() {
        let share = round % group.shares();
        let old = group.primary(share).await;
        let held = load.at_the_loss(share);
        loss.cause(old).await;
        let since = Instant::now();
        load.until_served(share).await;
        outages.push(since.elapsed());
        fates.push(load.fate(&held, since).await);
        let lost = load.lost();
        let new = group.until_replaced(old, share).await;
        // A silent primary still believes that it is the primary, and runs the commands that were sent meanwhile.
        loss.mend(old).await;
        group.until_settled_without(old, share).await;
        load.until_all_go_on().await;
        later += load.check_holders().await - lost;
        unasked += usize::from(group.primary(share).await != new);
    }
    let sum = |of: fn(&Fate) -> (usize, usize)| {
        let (held, lost): (Vec<_>, Vec<_>) = fates.iter().map(of).unzip();
        (held.iter().sum::<usize>(), lost.iter().sum::<usize>())
    };
    let (there, there_lost) = sum(|fate| fate.there);
    let (just_granted, just_granted_lost) = sum(|fate| fate.just_granted);
    let (elsewhere, elsewhere_lost) = sum(|fate| fate.elsewhere);
    outages.sort();
    let Tally { sections, lost, beside, behind, .. } = load.end().await;
    report(&format!(
        "{name}, {loss:?} {} times: lost {there_lost} of {there} locks that were held there, {just_granted_lost} of \
         {just_granted} handed over less than a second before, {elsewhere_lost} of {elsewhere} on other primaries; served \
         again after {:.1?} to {:.1?}, median {:.1?}; {unasked} failovers more that nobody asked for, in which {later} locks \
         were lost; of {sections} sections {lost} lost their lock, {beside} began while another believed in his lease",
        outages.len(),
        outages[0],
        outages[outages.len() - 1],
        outages[outages.len() / 2],
    ));
    assert_eq!(elsewhere_lost, 0, "{fates:?}");
    // Most leases outlast the loss, unless the machine stalls for too long.
    let brief = outages.iter().all(|outage| *outage < LEASE / 2);
    assert!(there_lost * 10 <= there || !brief, "{fates:?} within {outages:?}");
    // Replication is asynchronous, so a grant that no replica had may be made a second time before its holder is told.
    // The other lost locks have expired before the next holder is served.
    assert!(beside.max(behind) * 2 <= lost, "{beside} beside another, {behind} behind, {lost} lost");
    assert!(outages.iter().all(|outage| *outage < Duration::from_secs(20)), "{outages:?}");
}

/// Sentinels with a short time-out may fail over twice. The cost of that is counted as well.
async fn sentinels() -> Group {
    Group::Sentinels(SentinelGroup::builder().down_after(Duration::from_secs(1)).start().await.unwrap())
}

/// By default all nodes refuse commands while one of them is down. Then locks that were just handed over would be lost
/// on all nodes.
async fn cluster() -> RedisCluster {
    RedisCluster::builder().arg("--cluster-require-full-coverage").arg("no").start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_behind_sentinels_takes_few_locks_along() {
    let _half = half().await;
    measure(sentinels().await, Loss::Killed, "sentinels").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_primary_behind_sentinels_takes_few_locks_along_and_does_not_come_back_as_one() {
    let _half = half().await;
    measure(sentinels().await, Loss::Silent, "sentinels").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_of_a_cluster_takes_few_locks_along() {
    let _half = half().await;
    measure(Group::Cluster(cluster().await), Loss::Killed, "cluster").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_primary_of_a_cluster_takes_few_locks_along_and_does_not_come_back_as_one() {
    let _half = half().await;
    measure(Group::Cluster(cluster().await), Loss::Silent, "cluster").await;
}
