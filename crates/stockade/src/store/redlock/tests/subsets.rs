use std::slice;

use futures_util::future::join_all;

use super::{World, granted, is_no_quorum, key, once, until};
use crate::{
    clock::Instant,
    store::{LockStore, Released},
};

/// Which servers are up, one bit each.
struct Subset(u32);

impl Subset {
    fn up(&self, server: usize) -> bool {
        self.0 >> server & 1 == 1
    }

    fn is_quorum(&self, servers: usize) -> bool {
        self.0.count_ones() as usize > servers / 2
    }
}

async fn set(world: &World, store: &super::RedlockStore, subset: &Subset) {
    join_all(world.servers.iter().enumerate().map(async |(n, server)| {
        if subset.up(n) && server.pid() == 0 {
            server.restart().await.unwrap();
        } else if !subset.up(n) {
            server.kill().await.unwrap();
        }
    }))
    .await;
    until("the links to follow", || {
        store.inner.nodes.iter().enumerate().all(|(n, node)| node.link.is_up() == subset.up(n))
    })
    .await;
}

/// Attempts, extensions and releases succeed exactly where a quorum is up.
async fn every_subset(servers: usize) {
    let world = World::start(servers).await;
    let store = world.store().await;
    let all = Subset((1 << servers) - 1);
    for subset in (0..1 << servers).map(Subset) {
        let name = format!("{:0servers$b}", subset.0);
        set(&world, &store, &all).await;
        let held = granted(&store, once(&key(&format!("held-{name}")))).await;
        let given_back = granted(&store, once(&key(&format!("back-{name}")))).await;
        until_everywhere(&world, 2).await;

        set(&world, &store, &subset).await;
        let before = held.deadline();
        let extended = store.renew(slice::from_ref(&held)).await;
        let released = store.release(&given_back).await;
        let wanted = once(&key(&format!("new-{name}")));
        if subset.is_quorum(servers) {
            extended.unwrap();
            assert!(held.deadline() > before && held.loss().is_none(), "{name}");
            assert_eq!(released.unwrap(), Released::Released, "{name}");
            let taken = granted(&store, wanted).await;
            assert!(taken.deadline() > Instant::now());
            assert_eq!(store.release(&taken).await.unwrap(), Released::Released, "{name}");
        } else {
            assert!(extended.is_err(), "{name}");
            assert!(held.deadline() == before && held.loss().is_none(), "what nobody denies is not lost: {name}");
            assert!(released.is_err(), "{name}: {released:?}");
            let refused = store.acquire(wanted).await;
            assert!(is_no_quorum(&refused), "{name}: {refused:?}");
        }
        store.release_detached(held);
        // A server that is down lost the lock with its data.
        for server in (0..servers).filter(|server| subset.up(*server)) {
            world.until_free(server).await;
        }
    }
    world.end().await;
}

async fn until_everywhere(world: &World, locks: usize) {
    for server in 0..world.servers.len() {
        world.until(server, |keys| keys.len() == locks).await;
    }
}

#[tokio::test]
async fn of_three_servers_any_two_decide_and_no_fewer() {
    every_subset(3).await;
}

#[tokio::test]
async fn of_five_servers_any_three_decide_and_no_fewer() {
    every_subset(5).await;
}

#[tokio::test]
async fn half_of_an_even_number_decides_nothing() {
    let world = World::start(4).await;
    let store = world.store().await;
    set(&world, &store, &Subset(0b0111)).await;
    let held = store.acquire(once(&key("three"))).await.unwrap();
    store.release(&held).await.unwrap();
    set(&world, &store, &Subset(0b0011)).await;
    let refused = store.acquire(once(&key("two"))).await;
    assert!(is_no_quorum(&refused), "{refused:?}");
    world.until_free(0).await;
    world.until_free(1).await;
    world.end().await;
}
