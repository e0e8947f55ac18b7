//! The commands of the locks, as Redis counts them.

use std::{collections::BTreeMap, time::Duration};

use stockade::{Locks, Redis, lock::Released};
use stockade_testbed::{ChildProcess, RedisServer, SentinelGroup, eventually};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{resources::Sku, world::World};

const LIMIT: Duration = Duration::from_secs(60);
const PROCESSES: usize = 4;
const WAITERS: usize = 8;
const ROUNDS: usize = 25;
/// Tells a child of the test where its server is.
const SERVER: &str = "STOCKADE_TEST_TRAFFIC_SERVER";

async fn locks(url: &str) -> Locks {
    // With a shorter time-out a machine that stalls would make commands late, and each would be sent and counted again.
    let redis = Redis::builder(url).command_timeout(Duration::from_secs(5)).connect().await.expect("no Redis");
    let locks = Locks::new(&redis);
    eventually("connected", async || locks.write(&Sku("first")).try_acquire().await.is_ok()).await;
    locks
}

/// Calls of each command since the counters were reset.
pub(crate) async fn calls(server: &RedisServer) -> BTreeMap<String, u64> {
    let mut calls = server.calls().await.expect("no INFO");
    calls.retain(|command, _| !command.starts_with("config") && command != "info");
    calls
}

/// How many scripts the server has run since the counters were reset.
pub(crate) async fn scripts(server: &RedisServer) -> u64 {
    server.calls_of("evalsha").await.expect("no INFO")
}

#[tokio::test]
async fn an_uncontended_pair_is_two_commands_and_nothing_else() {
    let server = World::start().await;
    server.opened(count_uncontended_pairs(&server.url(), &server).await);
    server.end().await;
}

#[tokio::test]
async fn an_uncontended_pair_costs_no_more_behind_sentinels() {
    let group = SentinelGroup::start().await.unwrap();
    let locks = count_uncontended_pairs(&group.url(), group.primary().await.unwrap()).await;
    locks.shutdown(Duration::ZERO).await;
}

const PAIRS: u64 = 1000;

async fn count_uncontended_pairs(url: &str, server: &RedisServer) -> Locks {
    let locks = locks(url).await;
    let pair = async || locks.write(&Sku("pair")).acquire().await.unwrap().release().await.unwrap();
    // A floor ahead of the clock would cost one SET more. Within one process that takes two grants in one microsecond.
    let expected = [("del", 1), ("evalsha", 2), ("get", 1), ("set", 2), ("time", 1)];
    count(server, pair, &expected).await;
    locks
}

/// Checks how often the server ran each command in [`PAIRS`] pairs, none of which waits.
async fn count(server: &RedisServer, pair: impl AsyncFn() -> Released, expected: &[(&str, u64)]) {
    assert_eq!(pair().await, Released::Released);
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    for _ in 0..PAIRS {
        assert_eq!(pair().await, Released::Released);
    }
    let mut calls = calls(server).await;
    // These commands come from sentinels and replicas.
    calls.retain(|command, _| !["ping", "publish", "replconf"].contains(&command.as_str()));
    let expected = expected.iter().map(|(command, calls)| ((*command).to_owned(), calls * PAIRS));
    assert_eq!(calls, expected.collect());
}

#[tokio::test]
async fn an_uncontended_pair_of_a_reader_asks_only_what_there_is() {
    let server = World::start().await;
    let locks = server.opened(locks(&server.url()).await);
    let pair = async || locks.read(&Sku("read")).acquire().await.unwrap().release().await.unwrap();
    let expected = [("del", 1), ("evalsha", 2), ("exists", 1), ("get", 1), ("set", 2), ("time", 1)];
    count(&server, pair, &expected).await;
    // Next to a reader with a longer lease, the expiry of the records need not be changed.
    let others = server.opened(self::locks(&server.url()).await);
    let other = others.read(&Sku("read")).lease(Duration::from_secs(300)).acquire().await.unwrap();
    let mut expected = vec![("evalsha", 2), ("exists", 1), ("get", 1), ("hdel", 1), ("hexists", 1), ("hlen", 1)];
    expected.extend([("hset", 1), ("pexpiretime", 1), ("set", 3), ("time", 1)]);
    count(&server, pair, &expected).await;
    other.release().await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn an_uncontended_pair_of_resources_is_one_call_and_a_release_of_each() {
    const PAIRS: u64 = 500;
    let server = World::start().await;
    let locks = server.opened(locks(&server.url()).await);
    let both = [Sku("from"), Sku("to")];
    locks.write_all(&both).acquire().await.unwrap().release().await.unwrap();
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    for _ in 0..PAIRS {
        locks.write_all(&both).acquire().await.unwrap().release().await.unwrap();
    }
    let calls = calls(&server).await;
    let expected = [
        ("del", 2 * PAIRS),
        ("evalsha", 3 * PAIRS),
        ("exists", 2 * PAIRS),
        ("get", 2 * PAIRS),
        ("set", 4 * PAIRS),
        ("time", PAIRS),
    ];
    assert_eq!(calls, expected.map(|(command, calls)| (command.to_owned(), calls)).into());
    server.end().await;
}

/// Contends for one lock as one of several processes. Writes a line per section, in the order of the requests.
async fn contend(url: &str) {
    let locks = locks(url).await;
    let mut output = tokio::io::stdout();
    output.write_all(b"\nready\n").await.unwrap();
    output.flush().await.unwrap();
    // The parent sends a line when all children are ready.
    BufReader::new(tokio::io::stdin()).lines().next_line().await.unwrap();
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (locks, asked) = (locks.clone(), std::sync::Arc::clone(&asked));
        waiters.spawn(async move {
            let mut sections = Vec::new();
            for _ in 0..ROUNDS {
                // On the one thread the first poll queues the command, so the numbers have the order of arrival.
                let number = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let guard = locks.write(&Sku("contended")).wait(LIMIT).acquire().await.unwrap();
                sections.push((number, guard.token().get()));
                sleep(Duration::from_millis(2)).await;
                guard.release().await.unwrap();
            }
            sections
        });
    }
    let mut sections = waiters.join_all().await.concat();
    sections.sort_unstable();
    for (_, token) in sections {
        output.write_all(format!("token {token}\n").as_bytes()).await.unwrap();
    }
    output.flush().await.unwrap();
}

/// Not a test by itself: the children of the next test run this.
#[tokio::test]
async fn a_contending_process() {
    if let Ok(url) = std::env::var(SERVER) {
        contend(&url).await;
    }
}

#[tokio::test]
async fn waiters_of_several_processes_are_served_in_order_for_two_commands_each() {
    let server = World::start().await;
    serve_several_processes(&server.url(), &server).await;
    server.end().await;
}

#[tokio::test]
async fn waiters_cost_no_more_behind_sentinels() {
    let group = SentinelGroup::start().await.unwrap();
    serve_several_processes(&group.url(), group.primary().await.unwrap()).await;
}

async fn serve_several_processes(url: &str, server: &RedisServer) {
    let mut children = Vec::new();
    for _ in 0..PROCESSES {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["redis_traffic::a_contending_process", "--exact", "--nocapture", "--quiet"]).env(SERVER, url);
        let mut child = ChildProcess::start(command).unwrap();
        child.says("ready", LIMIT).await.unwrap();
        children.push(child);
    }
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    for child in &mut children {
        child.tell("go").await.unwrap();
    }
    let mut tokens = Vec::new();
    for mut child in children {
        let mut own: Vec<u64> = Vec::new();
        while let Some(line) = timeout(LIMIT, child.next_line()).await.expect("a child hangs").unwrap() {
            own.extend(line.strip_prefix("token ").map(|token| token.parse::<u64>().unwrap()));
        }
        assert_eq!(own.len(), WAITERS * ROUNDS);
        // Tokens are minted in the order of grants, so within a process they must rise in the order of requests.
        assert!(own.is_sorted(), "served out of order: {own:?}");
        tokens.push(own);
    }
    let calls = calls(server).await;
    let sections = (PROCESSES * WAITERS * ROUNDS) as u64;
    let evalsha = calls["evalsha"];
    assert!(evalsha * 10 <= sections * 21, "{evalsha} for {sections} sections: {calls:?}");
    assert!(calls["publish"] <= sections + sections / 10, "more than one was woken: {calls:?}");

    // Each waiter queues again at the end. So while all are busy, no waiter is served twice before all others were
    // served once.
    let mut order: Vec<(u64, usize)> =
        tokens.iter().enumerate().flat_map(|(process, own)| own.iter().map(move |token| (*token, process))).collect();
    order.sort_unstable();
    let busy = &order[order.len() / 4..order.len() * 3 / 4];
    for window in busy.chunks_exact(PROCESSES * WAITERS) {
        for process in 0..PROCESSES {
            let served = window.iter().filter(|(_, by)| *by == process).count();
            assert!(served.abs_diff(WAITERS) <= 2, "process {process} was served {served} times in a round");
        }
    }
}
