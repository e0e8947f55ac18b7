use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use stockade::{
    Locks,
    lock::{Guard, LocksBuilder, Released},
};
use stockade_testbed::{ChildProcess, RedisServer};
use tokio::{
    io::AsyncWriteExt,
    process::Command,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::support::{Item, LIMIT, keys, process, report, turn, until};

const STORES: usize = 4;
const WAITERS: usize = 2500;
const ALL: usize = STORES * WAITERS;
/// These variables tell a child of the test where its server is, and its number.
const SERVER: &str = "STOCKADE_TEST_SCALE_SERVER";
const NUMBER: &str = "STOCKADE_TEST_SCALE_NUMBER";

fn item() -> Item {
    Item("contended".to_owned())
}

fn builder() -> LocksBuilder {
    Locks::builder().max_waiters(u32::try_from(ALL).unwrap())
}

/// The tags of the waiters in the order of their places, read from the keys on the server.
async fn queue(server: &RedisServer) -> Vec<usize> {
    let (mut order, mut records) = (String::new(), String::new());
    for key in keys(server).await {
        if key.contains("}q:") {
            order = server.command(&["ZRANGE", &key, "0", "-1"]).await.unwrap();
        } else if key.contains("}w:") {
            records = server.command(&["HGETALL", &key]).await.unwrap();
        }
    }
    let mut lines = records.lines();
    let mut tags = HashMap::new();
    while let (Some(owner), Some(record)) = (lines.next(), lines.next()) {
        tags.insert(owner, record.rsplit(' ').next().unwrap().parse().unwrap());
    }
    order.lines().map(|owner| tags[owner]).collect()
}

async fn waiting(server: &RedisServer) -> usize {
    for key in keys(server).await {
        if key.contains("}q:") {
            return server.command(&["ZCARD", &key]).await.unwrap().trim().parse().unwrap();
        }
    }
    0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_waiters_are_served_in_order_over_one_subscription_per_store() {
    let _turn = turn().await;
    let server = RedisServer::start().await.unwrap();
    let mut stores = Vec::new();
    for _ in 0..STORES {
        stores.push(process(&server.url(), builder()).await);
    }
    let holder = stores[0].write(&item()).acquire().await.unwrap();
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();

    let served = Arc::new(Mutex::new(Vec::with_capacity(ALL)));
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for number in 0..ALL {
        let request = stores[number % STORES].write(&item()).wait(LIMIT * 2).tag(number.to_string());
        let served = Arc::clone(&served);
        tasks.spawn(async move {
            let guard = request.acquire().await.unwrap();
            served.lock().unwrap().push((number, guard.token()));
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        });
    }
    until("all wait", async || waiting(&server).await == ALL).await;
    let queueing = began.elapsed();
    let places = queue(&server).await;

    let channels = server.command(&["PUBSUB", "CHANNELS", "*"]).await.unwrap();
    let channels: Vec<&str> = channels.split_whitespace().collect();
    assert_eq!(channels.len(), STORES, "{channels:?}");
    for channel in channels {
        let subscribers = server.command(&["PUBSUB", "NUMSUB", channel]).await.unwrap();
        assert_eq!(subscribers.lines().nth(1).unwrap().trim(), "1", "{subscribers}");
    }
    let clients = server.command(&["CLIENT", "LIST"]).await.unwrap();
    assert_eq!(clients.lines().filter(|client| client.contains("name=stockade:lock ")).count(), STORES);
    assert!(clients.lines().filter(|client| client.contains("name=stockade:")).count() <= 2 * STORES);

    let began = Instant::now();
    holder.release().await.unwrap();
    let all_served = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    timeout(LIMIT, all_served).await.expect("not all are served");
    let serving = began.elapsed();
    let calls = server.calls().await.unwrap();
    let (scripts, messages) = (calls["evalsha"], calls["publish"]);
    report(&format!(
        "{ALL} waiters of {STORES} stores on one lock: queued in {queueing:?}, served in {serving:?} ({:?} each), {:.3} \
         scripts and {:.3} messages per section, {STORES} subscriptions",
        serving / u32::try_from(ALL).unwrap(),
        scripts as f64 / ALL as f64,
        messages as f64 / ALL as f64,
    ));

    let (order, tokens): (Vec<usize>, Vec<_>) = served.lock().unwrap().iter().copied().unzip();
    assert_eq!(order.len(), ALL);
    assert!(order == places, "not in the order of the queue");
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens do not rise");
    assert!(scripts * 10 <= ALL as u64 * 21, "{calls:?}");
    until("nothing is left", async || keys(&server).await.is_empty()).await;
}

/// Not a test by itself: the children of the next test run this.
#[tokio::test]
async fn a_process_of_waiters() {
    let Ok(url) = std::env::var(SERVER) else { return };
    let child: usize = std::env::var(NUMBER).unwrap().parse().unwrap();
    let locks = process(&url, builder()).await;
    let mut tasks = JoinSet::new();
    for number in child * WAITERS..(child + 1) * WAITERS {
        let request = locks.write(&item()).wait(LIMIT * 2).tag(number.to_string());
        tasks.spawn(async move {
            let guard = request.acquire().await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            format!("served {number} {token}\n")
        });
    }
    let mut output = tokio::io::stdout();
    while let Some(served) = tasks.join_next().await {
        output.write_all(served.unwrap().as_bytes()).await.unwrap();
    }
    output.flush().await.unwrap();
}

/// One of several processes whose waiters stand in the queue.
struct Process(ChildProcess);

impl Process {
    fn start(server: &RedisServer, number: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["queue::a_process_of_waiters", "--exact", "--nocapture", "--quiet"]);
        command.envs([(SERVER, server.url()), (NUMBER, number.to_string())]);
        Self(ChildProcess::start(command).unwrap())
    }

    /// Token and number of each waiter that was served.
    async fn served(mut self) -> Vec<(u64, usize)> {
        let mut served = Vec::new();
        while let Some(line) = timeout(LIMIT, self.0.next_line()).await.expect("a child hangs").unwrap() {
            if let Some((number, token)) = line.split_once("served ").and_then(|(_, rest)| rest.split_once(' ')) {
                served.push((token.parse().unwrap(), number.parse().unwrap()));
            }
        }
        served
    }
}

/// Processes whose waiters are one behind the other in the queue of a lock that this process holds.
async fn processes(server: &RedisServer) -> (Guard, Vec<Process>) {
    let locks = process(&server.url(), builder()).await;
    let holder = locks.write(&item()).acquire().await.unwrap();
    let mut processes = Vec::new();
    for number in 0..STORES {
        processes.push(Process::start(server, number));
        until("all wait", async || waiting(server).await == (number + 1) * WAITERS).await;
    }
    server.command(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]).await.unwrap();
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    (holder, processes)
}

/// The longest time that a script blocked the server.
async fn slowest(server: &RedisServer) -> Duration {
    let log = server.command(&["SLOWLOG", "GET", "-1"]).await.unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let scripts = lines.windows(2).filter(|pair| pair[1] == "EVALSHA");
    Duration::from_micros(scripts.filter_map(|pair| pair[0].parse().ok()).max().unwrap_or_default())
}

#[tokio::test]
async fn thousands_of_waiters_of_a_killed_process_hold_up_nobody() {
    let _turn = turn().await;
    let server = RedisServer::start().await.unwrap();
    let (holder, mut processes) = processes(&server).await;
    let mut killed = processes.remove(0);
    killed.0.kill().await.unwrap();
    let subscriptions = async || {
        let channels = server.command(&["PUBSUB", "CHANNELS", "*"]).await.unwrap();
        channels.split_whitespace().count()
    };
    until("its connection is gone", async || subscriptions().await == STORES).await;
    let places: Vec<_> = queue(&server).await.into_iter().filter(|number| *number >= WAITERS).collect();

    let began = Instant::now();
    holder.release().await.unwrap();
    let mut served: Vec<_> = join_all(processes.into_iter().map(Process::served)).await.concat();
    let (took, slowest, calls) = (began.elapsed(), slowest(&server).await, server.calls().await.unwrap());
    report(&format!(
        "{WAITERS} waiters of a killed process at the head of the queue: {} behind them served in {took:?}, the slowest \
         script took {slowest:?}",
        places.len()
    ));
    served.sort_unstable();
    let order: Vec<usize> = served.into_iter().map(|(_, number)| number).collect();
    assert!(order == places, "not in the order of the queue");
    // There is one message for each grant, and few for the waiters that were passed over, however many they are.
    assert!(calls["publish"] < (ALL - WAITERS) as u64 + 200, "{calls:?}");
    assert!(slowest < Duration::from_millis(250), "{slowest:?}");
}

#[tokio::test]
async fn waiters_of_a_stopped_process_are_passed_over_together_and_come_back() {
    let _turn = turn().await;
    let server = RedisServer::start().await.unwrap();
    let (holder, mut processes) = processes(&server).await;
    let stopped = processes.remove(0);
    stopped.0.pause().await.unwrap();

    let began = Instant::now();
    holder.release().await.unwrap();
    let served: Vec<_> = join_all(processes.into_iter().map(Process::served)).await.concat();
    let (took, slowest, calls) = (began.elapsed(), slowest(&server).await, server.calls().await.unwrap());
    assert_eq!(served.len(), ALL - WAITERS);
    stopped.0.resume().unwrap();
    let back = stopped.served().await;
    report(&format!(
        "{WAITERS} waiters of a stopped process at the head of the queue: {} behind them served in {took:?}, of which one \
         unconfirmed grant is 2 s; the slowest script took {slowest:?}; all of the stopped came back",
        served.len()
    ));
    assert_eq!(back.len(), WAITERS, "not all came back");
    let last = served.iter().map(|(token, _)| *token).max();
    assert!(back.iter().all(|(token, _)| Some(*token) > last), "served twice");
    // There is one message for each grant, and few for the waiters that were passed over, however many they are.
    assert!(calls["publish"] < (ALL - WAITERS) as u64 + 200, "{calls:?}");
    assert!(slowest < Duration::from_millis(250), "{slowest:?}");
    until("nothing is left", async || keys(&server).await.is_empty()).await;
}
