//! Measures Stockade next to other libraries, and next to floors: the fewest commands of a server that have the same
//! effect.
//!
//! All contenders of a table run against one private Redis and one private PostgreSQL, in turns, so that a disturbance
//! of the machine affects them all. A figure is the median over the rounds; a ratio is the median of the ratios of each
//! round to the first contender's, which is steadier than either time.
//!
//! ```text
//! make bench            # everything, written to docs/benchmarks.*
//! make bench ROW=http   # the tables whose name contains `http`, printed only
//! ```

#![expect(clippy::print_stdout, reason = "the tables are the output")]

mod cache;
mod child;
mod cold;
mod contender;
mod counts;
mod crowd;
mod delegations;
mod goals;
mod hits;
mod http;
mod locks;
mod measure;
mod page;
mod payload;
mod queue;
mod renewals;
mod report;
mod tier;
mod traffic;
mod under_lock;
mod writes;

use std::{env, path::Path, process::ExitCode, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;
use mimalloc::MiMalloc;
use stockade_testbed::{PostgresServer, RedisServer};
use tokio::{task::JoinSet, time::sleep};

use contender::Failure;
use http::TASKS;
use measure::{Plan, table};
use report::{Report, Run};

/// The allocator of the service.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const UPKEEP: Duration = Duration::from_secs(5);

fn main() -> Result<ExitCode, Failure> {
    // A child that serves has the whole command line of the service, and a runtime of its own.
    if env::args().nth(1).as_deref() == Some("serve") {
        return Ok(inventory::cli::main());
    }
    let runtime = tokio::runtime::Runtime::new()?;
    match env::args().nth(1).as_deref() {
        Some("within") => runtime.block_on(http::serve_within()),
        Some("floor") => runtime.block_on(http::serve_floor()),
        Some("wait") => runtime.block_on(queue::wait()),
        Some("keep") => runtime.block_on(renewals::renew()),
        Some("ask") => runtime.block_on(cold::ask()),
        only => runtime.block_on(measure_all(only)),
    }
}

/// The groups of tables, by their names on the page.
const GROUPS: [&str; 11] =
    ["http", "locks", "cache", "writes", "tier", "payload", "queue", "cold", "delegations", "renewals", "counts"];

/// Measures the groups whose name contains `only`. Without it, measures all groups and writes the report.
async fn measure_all(only: Option<&str>) -> Result<ExitCode, Failure> {
    let wanted = |group: &str| only.is_none_or(|only| group.contains(only));
    if !GROUPS.into_iter().any(wanted) {
        return Err(format!(
            "no group has `{}` in its name: there are {}",
            only.unwrap_or_default(),
            GROUPS.join(", ")
        )
        .into());
    }
    let recorder = PrometheusBuilder::new().install_recorder()?;
    // As in the service: without upkeep a histogram keeps every time that it was told of.
    let mut upkeep = JoinSet::new();
    upkeep.spawn(async move {
        loop {
            sleep(UPKEEP).await;
            recorder.run_upkeep();
        }
    });
    let redis = RedisServer::start().await?;
    let postgres = PostgresServer::start().await?;
    let mut report = Report::of(Run::look(&redis, &postgres).await?);
    if wanted("http") {
        http_tables(&mut report, &redis, &postgres).await?;
    }
    // Alone, an operation is all round trip: it takes longer, and needs fewer of them for a steady figure.
    for plan in [
        Plan { tasks: 1, rounds: 15, operations: 512, warm: false },
        Plan { tasks: 64, rounds: 31, operations: 4096, warm: false },
    ] {
        if wanted("locks") {
            report.add(table(goals::LOCKS, plan, &locks::free(&redis).await?).await?);
        }
        if wanted("cache") {
            report.add(table(goals::CACHE, plan, &cache::contenders(&redis).await?).await?);
            report.add(table(goals::HIT, plan, &payload::floor(&redis).await?).await?);
        }
        if wanted("writes") {
            let plan = Plan { operations: 512, ..plan };
            report.add(table("change of a row", plan, &writes::contenders(&redis, &postgres).await?).await?);
        }
    }
    if wanted("tier") {
        report.count(tier::whole(&redis).await?);
    }
    if wanted("payload") {
        payload_tables(&mut report, &redis).await?;
    }
    if wanted("queue") {
        queue_tables(&mut report, &redis).await?;
    }
    if wanted("cold") {
        report.count(cold::figures(&redis).await?);
    }
    if wanted("delegations") {
        delegation_tables(&mut report, &redis).await?;
    }
    if wanted("renewals") {
        report.count(renewals::figures(&redis).await?);
    }
    if wanted("counts") {
        report.count(counts::allocations(&redis).await?);
        report.count(counts::memory(&RedisServer::start().await?).await?);
    }
    if only.is_none() {
        report.write(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn http_tables(report: &mut Report, redis: &RedisServer, postgres: &PostgresServer) -> Result<(), Failure> {
    let world = http::World::start(redis, postgres).await?;
    let reads = Plan { tasks: TASKS, rounds: 9, operations: http::REQUESTS, warm: true };
    let changes = Plan { rounds: 15, operations: 1024, warm: false, ..reads };
    let (contenders, shares) = http::reads(&world).await?;
    report.add(table(goals::READS, reads, &contenders).await?);
    for share in shares {
        report.note(share.text());
    }
    report.add(table(goals::MIXED, reads, &http::reads_among_writes(&world).await?).await?);
    report.add(table(goals::CHANGES, changes, &http::changes(&world).await?).await?);
    let one = Plan { operations: 512, ..changes };
    report.add(table(goals::CHANGES_OF_ONE, one, &http::changes_of_one(&world).await?).await?);
    // Long rounds: the last reservations of one are stored while another contender has its turn.
    let many = Plan { rounds: 9, operations: 8192, ..changes };
    let (contenders, _durable) = http::reservations(&world).await?;
    report.add(table(goals::RESERVATIONS, many, &contenders).await?);
    Ok(())
}

async fn payload_tables(report: &mut Report, redis: &RedisServer) -> Result<(), Failure> {
    for rows in [2, 8, 32, 512] {
        let (contenders, stored) = payload::contenders(redis, rows).await?;
        let plan = Plan { tasks: 64, rounds: 15, operations: 1024, warm: false };
        report.add(table(&format!("hit of {rows} rows in Redis"), plan, &contenders).await?);
        report.note(stored);
    }
    Ok(())
}

async fn delegation_tables(report: &mut Report, redis: &RedisServer) -> Result<(), Failure> {
    let plan = Plan { tasks: 1_000, rounds: 15, operations: 10_000, warm: true };
    report.add(table("1,000 readers in one process", plan, &delegations::crowd(redis).await?).await?);
    report.count(delegations::writes(redis).await?);
    Ok(())
}

async fn queue_tables(report: &mut Report, redis: &RedisServer) -> Result<(), Failure> {
    let mut counted = Vec::new();
    for waiters in [2, 8, 32, 128] {
        let (table, scripts) = queue::table(redis, waiters).await?;
        report.add(table);
        counted.push((waiters, scripts));
    }
    report.count(queue::scripts_of_a_section(&counted)?);
    report.count(crowd::figures(redis).await?);
    Ok(())
}
