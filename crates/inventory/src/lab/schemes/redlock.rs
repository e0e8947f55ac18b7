//! Redlock: the lock of [`set_nx_px`] on five servers that know nothing of each other. A buyer with three of them has
//! the lock. It outlives the loss of two servers. A holder that is stopped beyond its lease writes as before.
//!
//! <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::{
    Sale, SaleError, World, owner, poll, read_think_write,
    set_nx_px::{give_back, take},
};

/// The most that a server may take to answer before it counts as down.
const ANSWER: Duration = Duration::from_millis(50);

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let (owner, asked) = (owner(), Instant::now());
    while !take_majority(world, &owner).await {
        poll(world, asked).await?;
    }
    let mut postgres = world.postgres.acquire().await?;
    let sale = read_think_write(world, &mut postgres).await;
    give_all_back(world, &owner).await;
    sale
}

async fn take_majority(world: &World, owner: &str) -> bool {
    let begun = Instant::now();
    let answers = join_all(world.quorum.iter().map(async |server| {
        let mut server = server.clone();
        matches!(timeout(ANSWER, take(&mut server, world, owner)).await, Ok(Ok(true)))
    }));
    let taken = answers.await.into_iter().filter(|&taken| taken).count();
    // Clocks run apart: the paper takes this off the lease.
    let drift = world.lease / 100 + Duration::from_millis(2);
    if taken > world.quorum.len() / 2 && begun.elapsed() + drift < world.lease {
        return true;
    }
    give_all_back(world, owner).await;
    false
}

async fn give_all_back(world: &World, owner: &str) {
    let answers = world.quorum.iter().map(async |server| {
        let mut server = server.clone();
        // A server that does not hear of it lets the lock go with its lease.
        let _ = timeout(ANSWER, give_back(&mut server, world, owner)).await;
    });
    join_all(answers).await;
}
