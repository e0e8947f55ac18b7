//! Which changes share a transaction, and who waits for whom.

use std::time::Duration;

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use sqlx::query;
use tokio::{
    runtime::Runtime,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use super::{
    super::{Sku, database, until},
    world::{LONG, SKUS, World, patient, soon},
};
use crate::postgres::group_commit::Limits;

#[tokio::test]
async fn changes_that_wait_share_a_transaction() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let group = world.group().await;
    assert_eq!(*world.take.stocks.get(&Sku("c")).await.unwrap().value.unwrap(), 10);
    world.open();
    let mut ids = JoinSet::new();
    for (guard, answer) in group {
        ids.spawn(async move { (answer.await.unwrap().unwrap(), guard).0 });
    }
    let mut ids = ids.join_all().await;
    ids.dedup();
    let [one, other] = busy.end().await;
    assert_eq!(ids.len(), 1, "the changes were spread over {ids:?}");
    assert!(ids[0] != one && ids[0] != other && one != other);
    assert_eq!(world.quantities().await, [9; 6]);
    assert_eq!(*world.take.stocks.get(&Sku("c")).await.unwrap().value.unwrap(), 9);
    world.stand(0, 0).await;
}

#[tokio::test]
async fn two_changes_of_one_resource_have_a_transaction_each() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let c = world.lock("c").await;
    let answers = [world.ask(&c, 1), world.ask(&c, 1), world.ask(&c, 1)];
    world.stand(3, 2).await;
    world.open();
    let mut ids = Vec::new();
    for answer in answers {
        ids.push(answer.await.unwrap().unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    busy.end().await;
    assert_eq!(world.quantities().await, [9, 9, 7, 10, 10, 10]);
}

#[tokio::test]
async fn a_change_that_finds_the_queue_full_has_a_transaction_of_its_own() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let (c, d) = (world.lock("c").await, world.lock("d").await);
    let waiting: Vec<_> = (0..1_024).map(|_| world.ask(&c, 1)).collect();
    world.stand(1_024, 2).await;
    let beside = world.ask(&d, 1);
    world.begun(3).await;
    world.stand(1_024, 2).await;
    waiting.iter().for_each(JoinHandle::abort);
    world.open();
    beside.await.unwrap().unwrap();
    busy.end().await;
    world.stand(0, 0).await;
    assert_eq!(world.quantities().await, [9, 9, 10, 9, 10, 10]);
}

#[tokio::test]
async fn a_group_that_takes_long_keeps_no_other_waiting() {
    let (_server, pool) = database().await;
    let world = World::of(pool, Limits { keeps_place: Duration::from_millis(50), ..LONG }).await;
    let busy = world.busy().await;
    let c = world.lock("c").await;
    let third = world.ask(&c, 1);
    world.begun(3).await;
    world.open();
    third.await.unwrap().unwrap();
    busy.end().await;
    assert_eq!(world.quantities().await, [9, 9, 9, 10, 10, 10]);
}

#[test]
fn a_runtime_that_stands_still_or_ends_keeps_no_other_waiting() {
    let (here, there) = (Runtime::new().unwrap(), tokio::runtime::Builder::new_current_thread().enable_all().build());
    let there = there.unwrap();
    let (_server, world) = here.block_on(World::start());
    // The connections belong to this runtime, which drives them all the time.
    here.block_on(async {
        drop(join_all((0..8).map(|_| world.pool.acquire())).await);
        until(async || world.pool.num_idle() >= 8).await;
    });
    // Changes of another runtime: two are under way, a thousand of one resource wait, and nobody drives them any more.
    let stand_still = there.block_on(async {
        let mut asked = Vec::new();
        let guards = [world.lock("c").await, world.lock("d").await, world.lock("e").await];
        asked.extend([world.ask(&guards[0], 1), world.ask(&guards[1], 1)]);
        world.begun(2).await;
        asked.extend((0..1_000).map(|_| world.ask(&guards[2], 1)));
        world.stand(1_000, 2).await;
        (asked, guards)
    });
    here.block_on(async {
        let busy = world.busy_after(2).await;
        let f = world.lock("f").await;
        let waits = world.ask(&f, 1);
        world.open();
        busy.end().await;
        soon(waits).await;
        assert_eq!(world.quantities().await, [9, 9, 10, 10, 10, 9]);
    });
    assert!(stand_still.0.iter().all(|answer| !answer.is_finished()));
    there.shutdown_background();
    here.block_on(world.stand(0, 0));
}

#[tokio::test]
async fn changes_that_wait_for_their_rows_leave_most_connections_to_others() {
    let (server, _) = database().await;
    let world = World::of(patient(&server, 4).await, LONG).await;
    let mut holder = patient(&server, 1).await.begin().await.unwrap();
    query("select from stock for update").execute(&mut *holder).await.unwrap();
    world.open();
    let mut asked = Vec::new();
    for sku in SKUS {
        let guard = world.lock(sku).await;
        let answer = world.ask(&guard, 1);
        asked.push((guard, answer));
    }
    // Each has found its row held: one waits for it, and for each of the others its turn does not come.
    let mut answers: FuturesUnordered<_> = asked.iter_mut().map(|(_guard, answer)| answer).collect();
    for _ in 1..SKUS.len() {
        let others = join_all((0..3).map(|_| timeout(Duration::from_secs(20), world.pool.acquire()))).await;
        assert!(others.iter().all(|other| matches!(other, Ok(Ok(_)))), "{others:?}");
        drop(others);
        let error = timeout(Duration::from_secs(20), answers.next()).await.unwrap().unwrap().unwrap().unwrap_err();
        assert_eq!(error.applied(), Some(false), "{error:?}");
    }
    holder.rollback().await.unwrap();
    answers.next().await.unwrap().unwrap().unwrap();
    assert_eq!(world.quantities().await.iter().sum::<i32>(), 59);
}
