//! How often a delegation is recalled where delegations do not pay.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use stockade_testbed::eventually;

use super::support::{LIMIT, Sku, delegated, delegations, locks, read, token_of_read};
use crate::world::World;

/// The sum of a counter over its labels.
fn sum(rendered: &str, name: &str) -> u64 {
    let lines = rendered.lines().filter(|line| line.starts_with(name));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

async fn recalls_of_reads(processes: usize, recorded: &PrometheusHandle) -> (u64, u64) {
    let recalls = || sum(&recorded.render(), "stockade_lock_delegation_recalls_total");
    let before = recalls();
    let world = World::start().await;
    let mut all = Vec::new();
    for _ in 0..processes {
        all.push(locks(&world).await);
    }
    let mut random = SmallRng::seed_from_u64(7);
    let mut reads = 0;
    for _ in 0..1500 {
        let locks = &all[random.random_range(0..processes)];
        if random.random_bool(0.5) {
            reads += 1;
            drop(read(locks, "1").await);
        } else {
            drop(locks.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap());
        }
    }
    let recalls = recalls() - before;
    drop(all);
    world.end().await;
    (recalls, reads)
}

#[tokio::test]
async fn of_reads_and_writes_in_turn_a_ninth_of_the_reads_is_recalled_at_most() {
    // The test runs on one thread, to which the recorder belongs.
    let recorder = PrometheusBuilder::new().build_recorder();
    let recorded = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    for processes in [1, 4, 16] {
        let (recalls, reads) = recalls_of_reads(processes, &recorded).await;
        assert!(recalls > 0, "{processes} processes never delegated");
        // The first delegation of each process comes with its second read, without the eight reads before.
        let first = 8 * processes as u64;
        assert!(recalls * 9 <= reads + first, "{processes} processes: {recalls} recalls of {reads} reads");
    }
}

/// The first delegation ends without a writer, so the process soon gets another.
#[tokio::test]
async fn one_that_nobody_used_any_more_is_followed_by_another() {
    let world = World::start().await;
    let locks = locks(&world).await;
    delegated(&locks, "1").await;
    eventually("given back", async || delegations(&locks, "1").await == 0).await;
    let (mut last, mut reads) = (token_of_read(&locks, "1").await, 1);
    loop {
        let token = token_of_read(&locks, "1").await;
        reads += 1;
        if token == last {
            break;
        }
        last = token;
    }
    assert!(reads < 8, "{reads} reads before one was shared");
    drop(locks);
    world.end().await;
}
