//! The cost of keeping many locks.

use std::{env, process::ExitCode, time::Duration};

use futures_util::future::try_join_all;
use rustix::time::{ClockId, clock_gettime};
use stockade::{Locks, Redis};
use stockade_testbed::RedisServer;
use tokio::time::sleep;

use crate::{
    child,
    contender::Failure,
    locks::Order,
    report::Figures,
    traffic::{processor, scripts},
};

const HELD: u32 = 10_000;
const LEASE: Duration = Duration::from_secs(10);
/// Leases are renewed at a third of their length.
const ROUND: Duration = Duration::from_millis(3_333);
const ROUNDS: u32 = 2;
const BATCH: u32 = 100;

/// A round of renewals, next to the fewest commands that could prolong as many keys.
pub(crate) async fn figures(server: &RedisServer) -> Result<Figures, Failure> {
    let bare = round(server, "bare").await?;
    let held = round(server, "held").await?;
    Figures::new(
        "one round of renewals of 10,000 locks (every 3.3 s at a lease of 10 s), mimalloc",
        &["scripts", "client, ms of CPU", "Redis, ms of CPU"],
        vec![
            ("PEXPIRE of each key, 100 in a message".to_owned(), bare),
            ("stockade, renewed in scripts".to_owned(), held),
        ],
    )
}

/// The cost of one round of a child, between `begin` and its last line.
async fn round(server: &RedisServer, kind: &str) -> Result<Vec<f64>, Failure> {
    let url = server.url();
    let mut part = child::start("keep", &[("REDIS_URL", url.as_str()), ("KIND", kind)])?;
    part.says("begin", child::LIMIT).await?;
    let before = [scripts(server).await?, processor(server).await?];
    part.tell("go on").await?;
    let client: f64 = part.says("client ms ", child::LIMIT).await?.parse()?;
    let after = [scripts(server).await?, processor(server).await?];
    let rounds = f64::from(ROUNDS);
    Ok(vec![(after[0] - before[0]) / rounds, client / rounds, (after[1] - before[1]) * 1e3 / rounds])
}

/// The part of the child: renews, and prints the processor time that it took.
pub(crate) async fn renew() -> Result<ExitCode, Failure> {
    let url = env::var("REDIS_URL")?;
    if env::var("KIND")? == "bare" { put_off(&url).await } else { hold(&url).await }
}

async fn hold(url: &str) -> Result<ExitCode, Failure> {
    let locks = Locks::builder().lease(LEASE).redis(&Redis::connect(url).await?);
    let orders: Vec<_> = (0..HELD).map(|number| Order(format!("held {number}"))).collect();
    let mut guards = Vec::new();
    for some in orders.chunks(BATCH as usize) {
        guards.extend(try_join_all(some.iter().map(|order| locks.write(order).acquire())).await?);
    }
    // The first renewals bring each lock to its place in the grid.
    sleep(ROUND).await;
    let before = begin()?;
    sleep(ROUND * ROUNDS).await;
    let spent = milliseconds() - before;
    if let Some(loss) = guards.iter().find_map(stockade::lock::Guard::loss) {
        return Err(format!("a lock was lost while it was renewed: {loss:?}").into());
    }
    println!("client ms {spent}");
    Ok(ExitCode::SUCCESS)
}

async fn put_off(url: &str) -> Result<ExitCode, Failure> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let batches = (0..HELD / BATCH).map(|batch| (batch * BATCH..(batch + 1) * BATCH).map(|key| format!("kept:{key}")));
    let batches: Vec<Vec<_>> = batches.map(Iterator::collect).collect();
    for batch in &batches {
        let mut set = redis::pipe();
        for key in batch {
            set.cmd("SET").arg(key).arg("owner").arg("PX").arg(60_000).ignore();
        }
        set.exec_async(&mut connection).await?;
    }
    let before = begin()?;
    for batch in (0..ROUNDS).flat_map(|_| &batches) {
        let mut put_off = redis::pipe();
        for key in batch {
            put_off.cmd("PEXPIRE").arg(key).arg(60_000).ignore();
        }
        put_off.exec_async(&mut connection).await?;
    }
    println!("client ms {}", milliseconds() - before);
    Ok(ExitCode::SUCCESS)
}

/// Lets the parent read its counters. Returns the processor time so far.
fn begin() -> Result<f64, Failure> {
    println!("begin");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(milliseconds())
}

/// The processor time of all threads of this process.
#[expect(clippy::cast_precision_loss, reason = "some seconds")]
fn milliseconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e3 + spent.tv_nsec as f64 / 1e6
}
