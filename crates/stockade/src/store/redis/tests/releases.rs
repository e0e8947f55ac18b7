use std::sync::Arc;

use tokio::runtime::Handle;

use super::{World, connected, key, patient, until, write};
use crate::store::{LockStore, Ownership, redis::RedisStore};

const MANY: usize = 50;

async fn many(store: &RedisStore) -> Vec<Arc<Ownership>> {
    let mut held = Vec::new();
    for number in 0..MANY {
        held.push(store.acquire(write(&key(&number.to_string()))).await.unwrap());
    }
    held
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn one_task_reads_the_replies_to_many_releases() {
    let world = World::start().await;
    let store = connected(&patient(&world.server.url()).await).await;
    // The task ends after the last release, and the next release begins another task.
    for _ in 0..2 {
        let held = many(&store).await;
        let before = tasks();
        held.into_iter().for_each(|ownership| store.release_detached(ownership));
        assert_eq!(tasks(), before + 1);
        until("all replies", || tasks() == before).await;
        assert!(world.keys().await.is_empty());
    }
    world.end().await;
}

#[tokio::test]
async fn a_release_that_failed_leaves_nothing_in_the_tables_of_the_process() {
    let world = World::start().await;
    let store = connected(&world.redis().await).await;
    let held = store.acquire(write(&key("1"))).await.unwrap();
    world.server.pause().unwrap();
    store.release(&held).await.unwrap_err();
    assert!(!store.inner.held.knows(&held.owner, held.token));
    world.server.resume().unwrap();
    world.until_nothing_is_left().await;
    world.end().await;
}

#[tokio::test]
async fn a_release_without_an_answer_keeps_none_behind_it_waiting() {
    let world = World::start().await;
    let store = connected(&patient(&world.server.url()).await).await;
    let held = many(&store).await;
    let before = tasks();
    world.server.pause().unwrap();
    held.into_iter().for_each(|ownership| store.release_detached(ownership));
    until("a task for each", || tasks() >= before + MANY).await;
    world.server.resume().unwrap();
    world.until_nothing_is_left().await;
    until("all replies", || tasks() <= before).await;
    world.end().await;
}
