//! All programs and Stockade contend for one lock at once.

use std::time::Duration;

use futures_util::future::join_all;

use crate::{
    peer::{Kind, Peer},
    world::{NAME, Sku, World},
};

const ROUNDS: u32 = 10;
const LEASE: Duration = Duration::from_secs(5);
const COUNTER: &str = "counter";

/// Adds to the number as the other programs do, by a read and a write. Two holders at once would lose a count.
async fn count(world: &World) {
    for _ in 0..ROUNDS {
        let guard = world.ours.write(&Sku("1")).wait(Duration::MAX).acquire().await.unwrap();
        let seen: u32 = world.servers[0].command(&["GET", COUNTER]).await.unwrap().parse().unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(2)).await;
        world.servers[0].command(&["SET", COUNTER, &(seen + 1).to_string()]).await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn critical_sections_of_five_programs_never_overlap() {
    let world = World::start().await;
    let others = Kind::ALL.map(|kind| {
        let mut peer = Peer::start(kind, &world.servers);
        async move { peer.counts(NAME, LEASE, COUNTER, ROUNDS).await }
    });
    tokio::join!(count(&world), join_all(others));
    assert_eq!(world.servers[0].command(&["GETDEL", COUNTER]).await.unwrap(), (5 * ROUNDS).to_string());
    world.end().await;
}
