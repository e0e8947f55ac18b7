//! Loads that run while a write commits, and callers that know of a write which the load does not contain.

use std::time::Duration;

use stockade::Cache;
use tokio::task::JoinSet;

use super::{
    Sku,
    cached::{World, has, online, read, release},
    until,
};
use crate::world::caught_up;

/// A read on a task of its own.
fn reading(reader: &Cache<Sku, i32>) -> JoinSet<i32> {
    let reader = reader.clone();
    let mut reads = JoinSet::new();
    reads.spawn(async move { read(&reader).await });
    reads
}

#[tokio::test]
async fn what_is_stored_while_a_write_commits_is_dropped_by_it() {
    let world = World::patient().await;
    let (writer, reader) =
        (online(world.at(&world.redis.url()).await).await, online(world.at(&world.redis.url()).await).await);
    let holder = world.hold_commits().await;
    let tx = world.write(&writer, 9).await;
    let mut commits = JoinSet::new();
    commits.spawn(async move { tx.commit().await.unwrap() });
    world.committing().await;
    assert_eq!(read(&reader).await, 10);
    assert!(world.is_stored().await, "an eventual cache is told after the commit, and stores until then");
    release(holder).await;
    commits.join_next().await.unwrap().unwrap();
    assert_eq!(read(&reader).await, 9);
    assert_eq!(read(&writer).await, 9);
    world.end().await;
}

#[tokio::test]
async fn a_load_beside_a_commit_is_not_shared_with_callers_that_came_after_it() {
    let world = World::patient().await;
    let (writer, reader) = (world.cache().await, world.cache().await);
    let holder = world.hold_commits().await;
    let tx = world.write(&writer, 9).await;
    let mut commits = JoinSet::new();
    commits.spawn(async move { tx.commit().await.unwrap() });
    world.committing().await;

    // The early load reads the row as it was before the write.
    let (gate, before) = (world.shut(), world.loads());
    let mut early = reading(&reader);
    world.loaded_after(before).await;
    world.open();
    release(holder).await;
    commits.join_next().await.unwrap().unwrap();
    let mut late = reading(&reader);
    caught_up(&reader, &Sku("b")).await;
    gate.close();
    assert_eq!(late.join_next().await.unwrap().unwrap(), 9, "an answer from before an acknowledged write");
    assert_eq!(early.join_next().await.unwrap().unwrap(), 10);
    world.end().await;
}

#[tokio::test]
async fn a_fill_that_a_new_run_accepts_is_no_answer_for_callers_that_came_after_a_write() {
    let world = World::patient().await;
    let writer = world.cache().await;
    let strict = world.at(&world.redis.url()).await.strict(&world.pool);
    // With this time-out a load outlasts the restart.
    let reader = online(strict.load_timeout(Duration::from_secs(20))).await;
    world.vouched(&reader).await;
    let relay = world.relay.lock().unwrap().take().unwrap();
    relay.shutdown(Duration::from_secs(1)).await;
    writer.invalidate(&Sku("a")).await.unwrap();

    let (gate, before) = (world.shut(), world.loads());
    let mut reads = reading(&reader);
    world.loaded_after(before).await;
    world.open();
    // The snapshot has the lease of the load, and not the write that voids it.
    world.redis.command(&["SAVE"]).await.unwrap();
    world.write(&writer, 9).await.commit().await.unwrap();
    world.redis.restart().await.unwrap();
    until(async || !reader.is_degraded()).await;
    let key = world.keys('e').await;
    assert!(has(&world.redis, &key, "tok").await, "the snapshot was not read");

    let mut late = reading(&reader);
    caught_up(&reader, &Sku("b")).await;
    gate.close();
    assert_eq!(late.join_next().await.unwrap().unwrap(), 9, "an answer from before an acknowledged write");
    assert_eq!(reads.join_next().await.unwrap().unwrap(), 10);
    world.end().await;
}
