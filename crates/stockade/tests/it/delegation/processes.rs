//! Processes that are stopped or killed while they have a delegation.

use std::time::Duration;

use stockade::{Locks, Redis};
use tokio::time::Instant;

use super::support::{LIMIT, Sku, delegated, locks, read, token_of_read};
use crate::{
    child::{Child, say, wait_for_parent},
    world::World,
};

/// The address of the child's server. Unset in an ordinary test run.
const SERVER: &str = "DELEGATING_PROCESS_SERVER";
/// How long a delegation lasts without its process, and the delay that a busy machine may add.
const LEASE: Duration = Duration::from_secs(2);
const SLACK: Duration = Duration::from_secs(4);

/// The child, when the tests below start it in a process of its own. In an ordinary run it does nothing.
#[tokio::test]
async fn a_process() {
    let Ok(url) = std::env::var(SERVER) else { return };
    let locks = Locks::builder().lease(Duration::from_secs(60)).redis(&Redis::connect(url).await.unwrap());
    say(&format!("delegated {}", delegated(&locks, "1").await));
    let inside = read(&locks, "1").await;
    say("inside");
    wait_for_parent().await;
    say(&format!("lost {:?}", inside.lost().await));
    say(&format!("read {}", token_of_read(&locks, "1").await));
    wait_for_parent().await;
    locks.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_process_that_dies_keeps_writers_waiting_for_a_lease() {
    let world = World::start().await;
    let locks = locks(&world).await;
    let mut child = Child::start("delegation::processes::a_process", &[(SERVER, world.url())]);
    child.says("delegated ").await;
    child.says("inside").await;
    child.kill().await;
    let since = Instant::now();
    drop(locks.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap());
    assert!(since.elapsed() < LEASE + SLACK, "{:?}", since.elapsed());
    world.end().await;
}

#[tokio::test]
async fn a_process_that_was_stopped_reads_nothing_that_is_older_than_the_write() {
    let world = World::start().await;
    let locks = locks(&world).await;
    let mut child = Child::start("delegation::processes::a_process", &[(SERVER, world.url())]);
    let before: u64 = child.says("delegated ").await.parse().unwrap();
    child.says("inside").await;
    child.pause().await;
    let since = Instant::now();
    let written = locks.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap();
    assert!(since.elapsed() < LEASE + SLACK, "{:?}", since.elapsed());
    child.resume();
    child.go_on().await;
    child.says("lost ").await;
    let token = written.token().get();
    assert!(before < token);
    written.release().await.unwrap();
    let after: u64 = child.says("read ").await.parse().unwrap();
    assert!(after > token, "{after} after {token}");
    child.go_on().await;
    drop(child);
    world.end().await;
}
