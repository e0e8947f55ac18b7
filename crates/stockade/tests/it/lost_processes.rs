//! Processes that are stopped or killed while they hold and wait.

use std::time::Duration;

use stockade::{Guard, LockError, Locks, Redis, lock::Released};
use stockade_testbed::eventually;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    child::{Child, say, wait_for_parent},
    resources::Item,
    world::{World, waiting},
};

const LIMIT: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(1);
/// The role of the child, and the address of its server. Both are unset in an ordinary test run.
const ROLE: &str = "LOST_PROCESS";
const SERVER: &str = "LOST_PROCESS_SERVER";

async fn locks(server: &World) -> Locks {
    server.locks_of(Locks::builder().lease(LEASE), &Redis::connect(server.url()).await.unwrap()).await
}

fn start(role: &str, server: &World) -> Child {
    Child::start("lost_processes::a_process", &[(ROLE, role.to_owned()), (SERVER, server.url())])
}

async fn acquire(locks: &Locks) -> Guard {
    locks.write(&Item(1)).wait(LIMIT).acquire().await.unwrap()
}

/// The child, when the tests below start it in a process of its own. In an ordinary run it does nothing.
#[tokio::test]
async fn a_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let locks = Locks::builder().lease(LEASE).redis(&Redis::connect(std::env::var(SERVER).unwrap()).await.unwrap());
    eventually("connected", async || locks.list(1).await.is_ok()).await;
    match role.as_str() {
        "waits" => {
            let mut attempt = JoinSet::new();
            attempt.spawn(locks.write(&Item(1)).wait(LIMIT).acquire());
            // This connection sees the waiter, so the reply with its place has arrived, too. Without a reply it fails.
            waiting(&locks, "item:1", 1).await;
            say("waits");
            let guard = attempt.join_next().await.unwrap().unwrap().unwrap();
            say(&format!("holds {}", guard.token()));
            guard.release().await.unwrap();
        }
        "holds" => {
            let _guard = acquire(&locks).await;
            say("holds");
            wait_for_parent().await;
        }
        "crowds" => {
            let mut waiters = JoinSet::new();
            for _ in 0..20 {
                waiters.spawn(locks.write(&Item(1)).wait(LIMIT).acquire());
            }
            waiting(&locks, "item:1", 20).await;
            say("waits");
            waiters.join_next().await;
        }
        unknown => panic!("{unknown}"),
    }
}

#[tokio::test]
async fn a_grant_that_lay_in_a_stopped_process_is_not_believed() {
    let server = World::start().await;
    let locks = locks(&server).await;
    let held = acquire(&locks).await;
    let mut child = start("waits", &server);
    child.says("waits").await;
    child.pause().await;
    held.release().await.unwrap();
    // The grant is in the child's socket, and expires before the child can read it.
    let next = acquire(&locks).await;
    child.resume();
    let asked = waiting(&locks, "item:1", 1);
    tokio::select! {
        () = asked => {}
        said = child.next() => panic!("it {said} while {} is held", next.token()),
    }
    assert!(next.is_held());
    let token = next.token().get();
    assert_eq!(next.release().await.unwrap(), Released::Released);
    let late: u64 = child.says("holds ").await.parse().unwrap();
    assert!(late > token);
    server.end().await;
}

#[tokio::test]
async fn a_killed_holder_costs_one_lease_and_leaves_nothing() {
    let server = World::start().await;
    let locks = locks(&server).await;
    let mut child = start("holds", &server);
    child.says("holds").await;
    let mut next = JoinSet::new();
    next.spawn(locks.write(&Item(1)).wait(LIMIT).acquire());
    waiting(&locks, "item:1", 1).await;
    // A holder that is alive keeps its lock for as long as it likes.
    assert!(timeout(LEASE * 2, next.join_next()).await.is_err());
    child.kill().await;
    let killed = Instant::now();
    let guard = timeout(LIMIT, next.join_next()).await.expect("stuck").unwrap().unwrap().unwrap();
    assert!(killed.elapsed() < LEASE * 3, "{:?}", killed.elapsed());
    guard.release().await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn the_waiters_of_a_killed_process_cost_nothing() {
    let server = World::start().await;
    let locks = locks(&server).await;
    let held = acquire(&locks).await;
    let mut child = start("crowds", &server);
    child.says("waits").await;
    waiting(&locks, "item:1", 20).await;
    let mut next = JoinSet::new();
    next.spawn(locks.write(&Item(1)).wait(LIMIT).acquire());
    waiting(&locks, "item:1", 21).await;
    child.kill().await;
    eventually("its subscription is gone", async || {
        server.command(&["PUBSUB", "CHANNELS"]).await.unwrap().lines().count() == 1
    })
    .await;
    let released = Instant::now();
    held.release().await.unwrap();
    let guard = timeout(LIMIT, next.join_next()).await.expect("stuck").unwrap().unwrap().unwrap();
    assert!(released.elapsed() < LEASE, "{:?}", released.elapsed());
    assert_eq!(locks.inspect("item:1").await.unwrap().waiting, 0);
    guard.release().await.unwrap();
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_thread_that_is_busy_costs_no_lock() {
    let server = World::start().await;
    let (busy, other) = (locks(&server).await, locks(&server).await);
    let guard = acquire(&busy).await;
    let mut spinning = JoinSet::new();
    spinning.spawn(async {
        let until = Instant::now() + LEASE * 3;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    });
    let refused = other.write(&Item(1)).wait(LEASE * 3).acquire().await;
    assert!(matches!(refused, Err(LockError::Timeout { .. })), "{refused:?}");
    assert!(guard.is_held(), "{:?}", guard.loss());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    server.end().await;
}
