//! Many tasks, locks and rounds: what they leave behind, and what they cost.

use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use stockade::{Locks, Redis, lock::Released};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{redis_traffic::scripts, resources::Item, world::World};

const LIMIT: Duration = Duration::from_secs(60);

/// Locks with the default settings: no crowd and no busy machine may make a command late.
async fn locks(server: &World) -> Locks {
    let redis = Redis::connect(server.url()).await.unwrap();
    server.locks_of(Locks::builder(), &redis).await
}

/// Keys of locks, without the floors.
async fn keys(server: &World) -> usize {
    let keys = server.command(&["KEYS", "*:item:*"]).await.unwrap();
    keys.lines().filter(|key| !key.trim().is_empty()).count()
}

#[tokio::test]
async fn an_attempt_that_does_not_wait_is_one_command() {
    let server = World::start().await;
    let (holder, other) = (locks(&server).await, locks(&server).await);
    let guard = holder.write(&Item(1)).acquire().await.unwrap();
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    for _ in 0..10 {
        assert!(other.write(&Item(1)).try_acquire().await.unwrap().is_none());
        assert!(other.read(&Item(1)).try_acquire().await.unwrap().is_none());
    }
    assert_eq!(scripts(&server).await, 20);
    assert_eq!(keys(&server).await, 1, "the holder's");
    guard.release().await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn ten_thousand_rounds_leave_no_key_no_task_and_no_renewal() {
    let lease = Duration::from_millis(300);
    let server = World::start().await;
    let locks = locks(&server).await;
    let warm = locks.write(&Item(0)).lease(lease).acquire().await.unwrap();
    // By then the lock was renewed once, so that everything which a renewal creates exists.
    sleep(lease).await;
    warm.release().await.unwrap();
    let before = Handle::current().metrics().num_alive_tasks();
    for n in 0..10_000 {
        let guard = locks.write(&Item(n % 7)).lease(lease).acquire().await.unwrap();
        match n % 3 {
            0 => drop(guard.release().await.unwrap()),
            _ => drop(guard),
        }
    }
    let settled = async {
        while keys(&server).await > 0 || Handle::current().metrics().num_alive_tasks() > before {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, settled).await.expect("something is left");
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    sleep(lease * 3).await;
    assert_eq!(scripts(&server).await, 0, "something is still renewed");
    server.end().await;
}

/// Keeps a core busy until it is dropped.
struct Busy(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Busy {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
        });
        Self(over, Some(thread))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_attempts_at_once_on_a_busy_machine_are_ten_thousand_grants() {
    const ATTEMPTS: u32 = 10_000;
    let server = World::start().await;
    let locks = locks(&server).await;
    locks.write(&Item(0)).acquire().await.unwrap().release().await.unwrap();
    // Two would keep the server from its core for longer than a command may take, which is no fault of the crowd.
    let _busy = Busy::start();
    let mut tasks = JoinSet::new();
    for n in 0..ATTEMPTS {
        let request = locks.write(&Item(n)).wait(LIMIT);
        tasks.spawn(async move {
            let guard = request.acquire().await.map_err(|error| (n, error))?;
            guard.release().await.map_err(|error| (n, error))
        });
    }
    let mut failed = Vec::new();
    while let Some(ended) = timeout(LIMIT, tasks.join_next()).await.expect("a task is stuck") {
        match ended.unwrap() {
            Ok(released) => assert_eq!(released, Released::Released),
            Err(error) => failed.push(error),
        }
    }
    assert!(failed.is_empty(), "{} of {ATTEMPTS} failed, such as {:?}", failed.len(), &failed[..failed.len().min(5)]);
    assert!(!locks.is_degraded());
    assert_eq!(keys(&server).await, 0);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_tasks_wait_on_one_subscription() {
    const TASKS: u32 = 5000;
    let server = World::start().await;
    let locks = locks(&server).await;
    let mut tasks = JoinSet::new();
    for n in 0..TASKS {
        let request = locks.write(&Item(n % 5)).wait(LIMIT);
        tasks.spawn(async move { request.acquire().await?.release().await });
    }
    let channels = server.command(&["PUBSUB", "CHANNELS"]).await.unwrap();
    assert_eq!(channels.lines().count(), 1, "{channels}");
    while let Some(ended) = timeout(LIMIT, tasks.join_next()).await.expect("a task is stuck") {
        ended.unwrap().unwrap();
    }
    assert_eq!(keys(&server).await, 0);
    let clients = server.command(&["CLIENT", "LIST"]).await.unwrap();
    assert!(clients.lines().filter(|line| line.contains("name=stockade")).count() <= 2, "{clients}");
    server.end().await;
}
