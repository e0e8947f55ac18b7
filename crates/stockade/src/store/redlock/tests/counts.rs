use std::{collections::BTreeMap, slice, time::Duration};

use tokio::time::sleep;

use super::{World, key, once, until};
use crate::store::LockStore;

/// How often each server has run each command since its counters were reset; scripts and what they call.
async fn counts(world: &World) -> Vec<BTreeMap<String, u64>> {
    let mut all = Vec::new();
    for server in &world.servers {
        let mut calls = server.calls().await.unwrap();
        calls.retain(|command, _| !["info", "config|resetstat", "keys"].contains(&command.as_str()));
        all.push(calls);
    }
    all
}

async fn reset(world: &World) {
    for server in 0..world.servers.len() {
        world.command(server, &["CONFIG", "RESETSTAT"]).await;
    }
}

/// Waits for the counts, since servers beyond the quorum may still be working.
async fn expect(world: &World, wanted: &[(&str, u64)]) {
    let wanted: BTreeMap<_, _> = wanted.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect();
    let mut seen = Vec::new();
    for _ in 0..2000 {
        seen = counts(world).await;
        if seen.iter().all(|seen| *seen == wanted) {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("{seen:?}");
}

#[tokio::test]
async fn a_lock_nobody_else_wants_costs_every_server_one_script_each_way() {
    let world = World::start(3).await;
    let store = world.store().await;
    reset(&world).await;
    let warm = store.acquire(once(&key("warm"))).await.unwrap();
    store.renew(slice::from_ref(&warm)).await.unwrap();
    until("the renewal connections", || store.inner.nodes.iter().all(|node| node.link.renewals_are_up())).await;
    store.release(&warm).await.unwrap();
    world.until_all_are_free().await;
    until("quiet", || store.inner.tasks.is_empty()).await;

    reset(&world).await;
    let held = store.acquire(once(&key("counted"))).await.unwrap();
    expect(&world, &[("evalsha", 1), ("get", 1), ("set", 2), ("time", 1)]).await;

    reset(&world).await;
    store.renew(slice::from_ref(&held)).await.unwrap();
    expect(&world, &[("evalsha", 1), ("get", 1), ("pexpire", 1), ("time", 1)]).await;

    reset(&world).await;
    store.release(&held).await.unwrap();
    expect(&world, &[("evalsha", 1), ("get", 1), ("del", 1)]).await;
    world.end().await;
}
