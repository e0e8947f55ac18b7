//! One resource that several processes want at once.

use std::{env, process::ExitCode, str::FromStr, time::Duration};

use rslock::LockManager;
use stockade::{Locks, Redis};
use stockade_testbed::RedisServer;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    child,
    contender::Failure,
    goals,
    locks::{lock, peer_lock, ping},
    report::{Figures, Table},
    traffic::scripts,
};

const PROCESSES: u32 = 4;
const ROUNDS: usize = 5;
/// How long the waiters ask before they are measured, and how long they are measured.
const BEFORE: Duration = Duration::from_millis(200);
const MEASURED: Duration = Duration::from_millis(500);

/// An operation that the tasks of all processes repeat, and how many tasks there are.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    kind: &'static str,
    tasks: u32,
}

/// Sections of one resource, each without work, by so many waiters in four processes (two waiters: in two), and the
/// scripts that a section of Stockade took.
pub(crate) async fn table(server: &RedisServer, waiters: u32) -> Result<(Table, f64), Failure> {
    let mut kinds = vec![
        Kind { name: "rslock, polls", kind: "peer", tasks: waiters },
        Kind { name: "stockade, handed over in order", kind: "stockade", tasks: waiters },
        Kind { name: "one PING, alone", kind: "ping", tasks: 1 },
    ];
    // The goal for 32 waiters compares these two.
    if waiters == 32 {
        kinds.push(Kind { name: "stockade, 2 waiters", kind: "stockade", tasks: 2 });
    }
    let (mut micros, mut asked, mut served) = (vec![Vec::new(); kinds.len()], 0.0, 0.0);
    for _ in 0..ROUNDS {
        for (kind, times) in kinds.iter().zip(&mut micros) {
            let before = scripts(server).await?;
            let [measured, all] = round(server, *kind).await?;
            times.push(MEASURED.as_secs_f64() * 1e6 / measured.max(1.0));
            if kind.kind == "stockade" && kind.tasks == waiters {
                asked += scripts(server).await? - before;
                served += all;
            }
        }
    }
    let names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    Ok((Table::new(goals::SECTIONS, waiters, &names, &micros)?, asked / served))
}

/// How many scripts a section took, by the number of waiters.
pub(crate) fn scripts_of_a_section(counted: &[(u32, f64)]) -> Result<Figures, Failure> {
    let row = |(waiters, scripts): &(u32, f64)| (format!("{waiters} waiters"), vec![*scripts]);
    Figures::new(goals::SCRIPTS, &["scripts, by INFO commandstats"], counted.iter().map(row).collect())
}

/// How many sections there were within the measured time, and in all.
async fn round(server: &RedisServer, kind: Kind) -> Result<[f64; 2], Failure> {
    let processes = PROCESSES.min(kind.tasks);
    let (url, tasks) = (server.url(), (kind.tasks / processes).to_string());
    let settings = [("REDIS_URL", url.as_str()), ("KIND", kind.kind), ("TASKS", tasks.as_str())];
    let mut parts = (0..processes).map(|_| child::start("wait", &settings)).collect::<Result<Vec<_>, _>>()?;
    let mut sections = [0.0, 0.0];
    for part in &mut parts {
        let said = part.says("sections ", child::LIMIT).await?;
        let (measured, all) = said.split_once(" of ").ok_or("a child counted in another way")?;
        sections = [sections[0] + measured.parse::<f64>()?, sections[1] + all.parse::<f64>()?];
    }
    Ok(sections)
}

/// The part of one process: its tasks take the resource again and again. It prints how often, within the measured time
/// and in all.
pub(crate) async fn wait() -> Result<ExitCode, Failure> {
    let (url, tasks) = (env::var("REDIS_URL")?, u32::from_str(&env::var("TASKS")?)?);
    let locks = Locks::new(&Redis::connect(url.clone()).await?);
    let connection = redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    let mut peer = LockManager::new(vec![url]);
    // Unlimited retries, each after the default delay.
    peer.set_retry(u32::MAX, Duration::from_millis(200));
    let kind = env::var("KIND")?;
    let begin = Instant::now() + BEFORE;
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (locks, peer, connection, kind) = (locks.clone(), peer.clone(), connection.clone(), kind.clone());
        running.spawn(async move {
            let mut sections = [0, 0];
            while begin.elapsed() < MEASURED {
                match kind.as_str() {
                    "peer" => peer_lock(peer.clone(), "peer".to_owned()).await?,
                    "ping" => ping(connection.clone()).await?,
                    _ => lock(locks.clone(), 0).await?,
                }
                sections[0] += u32::from(Instant::now() >= begin && begin.elapsed() < MEASURED);
                sections[1] += 1;
            }
            Ok::<_, Failure>(sections)
        });
    }
    let mut sections = [0, 0];
    while let Some(ended) = running.join_next().await {
        let [measured, all] = ended??;
        sections = [sections[0] + measured, sections[1] + all];
    }
    let [measured, all] = sections;
    println!("sections {measured} of {all}");
    Ok(ExitCode::SUCCESS)
}
