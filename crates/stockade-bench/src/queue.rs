//! One resource that several processes want at once.

use std::{env, process::ExitCode, str::FromStr, time::Duration};

use rslock::LockManager;
use stockade::{Locks, Redis};
use stockade_testbed::RedisServer;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    child::Part,
    contender::Failure,
    locks::{lock, peer_lock},
    report::{Row, Table},
};

const PROCESSES: u32 = 4;
const ROUNDS: usize = 7;
/// How long the waiters ask before they are measured, and how long they are measured.
const BEFORE: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(700);

/// Sections of one resource, each without work, by so many waiters in four processes (in two, when they are two).
pub(crate) async fn table(server: &RedisServer, waiters: u32) -> Result<Table, Failure> {
    let mut micros: [Vec<f64>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (kind, times) in ["peer", "stockade"].into_iter().zip(&mut micros) {
            times.push(round(server, kind, waiters).await?);
        }
    }
    let names = ["rslock, polls", "stockade, handed over in order"];
    let rows = names.into_iter().zip(&micros).map(|(name, times)| Row::new(name, times, &micros[0]));
    Ok(Table {
        title: "sections of one resource, over several processes".to_owned(),
        tasks: waiters,
        rows: rows.collect(),
    })
}

async fn round(server: &RedisServer, kind: &str, waiters: u32) -> Result<f64, Failure> {
    let processes = PROCESSES.min(waiters);
    let (url, tasks) = (server.url(), (waiters / processes).to_string());
    let settings = [("REDIS_URL", url.as_str()), ("KIND", kind), ("TASKS", tasks.as_str())];
    let mut parts = (0..processes).map(|_| Part::start("wait", &settings)).collect::<Result<Vec<_>, _>>()?;
    let mut sections = 0;
    for part in &mut parts {
        sections += part.says("sections ").await?.parse::<u32>()?;
    }
    Ok(MEASURED.as_secs_f64() * 1e6 / f64::from(sections.max(1)))
}

/// The part of one process: its tasks take the resource again and again; it says how often while it was measured.
pub(crate) async fn wait() -> Result<ExitCode, Failure> {
    let (url, tasks) = (env::var("REDIS_URL")?, u32::from_str(&env::var("TASKS")?)?);
    let locks = Locks::new(&Redis::connect(url.clone()).await?);
    let mut peer = LockManager::new(vec![url]);
    // As often as it takes, each at its default distance.
    peer.set_retry(u32::MAX, Duration::from_millis(200));
    let is_peer = env::var("KIND")? == "peer";
    let begin = Instant::now() + BEFORE;
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (locks, peer) = (locks.clone(), peer.clone());
        running.spawn(async move {
            let mut sections = 0;
            while begin.elapsed() < MEASURED {
                if is_peer {
                    peer_lock(peer.clone(), "peer".to_owned()).await?;
                } else {
                    lock(locks.clone(), 0).await?;
                }
                sections += u32::from(Instant::now() >= begin && begin.elapsed() < MEASURED);
            }
            Ok::<_, Failure>(sections)
        });
    }
    let mut sections = 0;
    while let Some(ended) = running.join_next().await {
        sections += ended??;
    }
    println!("sections {sections}");
    Ok(ExitCode::SUCCESS)
}
