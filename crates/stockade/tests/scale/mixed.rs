//! As many reads as writes of one resource, from many processes. Delegations do not pay here.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use rand::{Rng, SeedableRng, rngs::StdRng};
use stockade::Locks;
use stockade_testbed::RedisServer;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    child::{Child, say, wait_for_parent},
    support::{Item, LIMIT, keys, process, report, turn, until},
};

const PROCESSES: u64 = 16;
/// How many sections each process runs, one after the other.
const SECTIONS: u64 = 100;
/// The longest pause between two sections of a process, in milliseconds.
const MOST_PAUSE: u64 = 60;
/// Tells a child where its server is. Unset in an ordinary run.
const SERVER: &str = "STOCKADE_TEST_MIXED_SERVER";
/// Whether the child's reads may be delegated, and the seed of its random numbers.
const ROLE: &str = "STOCKADE_TEST_MIXED_ROLE";

fn item() -> Item {
    Item("mixed".to_owned())
}

/// Not a test by itself: each of the processes runs this.
#[tokio::test]
async fn a_process() {
    let (Ok(server), Ok(role)) = (std::env::var(SERVER), std::env::var(ROLE)) else { return };
    let (delegates, seed) = role.split_once(' ').unwrap();
    let recorded = PrometheusBuilder::new().install_recorder().unwrap();
    let mut random = StdRng::seed_from_u64(seed.parse().unwrap());
    let locks = process(&server, Locks::builder().delegate(delegates == "true")).await;
    say("ready");
    wait_for_parent().await;
    let (mut reads, mut slowest) = (0, Duration::ZERO);
    for _ in 0..SECTIONS {
        let began = Instant::now();
        let guard = if random.random_bool(0.5) {
            reads += 1;
            locks.read(&item()).delegate().wait(LIMIT).acquire().await.unwrap()
        } else {
            locks.write(&item()).wait(LIMIT).acquire().await.unwrap()
        };
        slowest = slowest.max(began.elapsed());
        guard.release().await.unwrap();
        // A delegation only begins while nobody waits. Without pauses somebody always waits.
        sleep(Duration::from_millis(random.random_range(0..MOST_PAUSE))).await;
    }
    say(&format!("{reads} {}", slowest.as_micros()));
    wait_for_parent().await;
    locks.shutdown(Duration::from_secs(5)).await;
    let rendered = recorded.render();
    let recalls = rendered.lines().filter(|line| line.starts_with("stockade_lock_delegation_recalls_total"));
    let recalls: u64 = recalls.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    say(&format!("recalled {recalls}"));
}

/// The result of a run of all processes.
#[derive(Debug)]
struct Run {
    reads: u64,
    recalls: u64,
    scripts: u64,
    took: Duration,
    slowest: Duration,
}

async fn run(delegates: bool) -> Run {
    let server = RedisServer::start().await.unwrap();
    let mut children = Vec::new();
    for seed in 0..PROCESSES {
        let environment = [(SERVER, server.url()), (ROLE, format!("{delegates} {seed}"))];
        let mut child = Child::start("mixed::a_process", &environment);
        child.says("ready").await;
        children.push(child);
    }
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let began = Instant::now();
    for child in &mut children {
        child.go_on().await;
    }
    let (mut reads, mut slowest) = (0, Duration::ZERO);
    for child in &mut children {
        let said = timeout(LIMIT, child.next()).await.expect("a process does not come to its end");
        let (of_it, micros) = said.split_once(' ').unwrap();
        reads += of_it.parse::<u64>().unwrap();
        slowest = slowest.max(Duration::from_micros(micros.parse().unwrap()));
    }
    let (took, calls) = (began.elapsed(), server.calls().await.unwrap());
    let mut recalls = 0;
    for child in &mut children {
        child.go_on().await;
        recalls += child.says("recalled ").await.parse::<u64>().unwrap();
    }
    until("nothing is left", async || keys(&server).await.is_empty()).await;
    Run { reads, recalls, scripts: calls["evalsha"], took, slowest }
}

#[tokio::test]
async fn as_many_reads_as_writes_of_sixteen_processes_cost_what_they_cost_without_delegations() {
    let _turn = turn().await;
    let (without, with) = (run(false).await, run(true).await);
    let sections = PROCESSES * SECTIONS;
    report(&format!("{sections} sections of {PROCESSES} processes, without delegations: {without:?}; with: {with:?}"));
    assert_eq!(with.reads, without.reads, "the same random numbers");
    // No process starves: a waiter waits for each of the others about once, which takes far less than half of the run.
    for run in [&without, &with] {
        assert!(run.slowest < run.took / 2, "somebody starves: {run:?}");
    }
    // Where delegations do not pay, at most a ninth of the reads is recalled. The first delegation of each process
    // comes with its second read.
    assert!((1..=(with.reads + 8 * PROCESSES) / 9).contains(&with.recalls), "{} recalls", with.recalls);
    assert!(with.scripts * 10 <= without.scripts * 11, "{} scripts beside {}", with.scripts, without.scripts);
    assert!(without.scripts * 10 <= sections * 21 + 10 * PROCESSES, "{} scripts", without.scripts);
}
