//! The cost of delegations to writers, and the gain to a crowd of readers.

use std::time::Duration;

use futures_util::future::try_join_all;
use stockade::{Locks, Redis};
use stockade_testbed::RedisServer;
use tokio::time::Instant;

use crate::{
    contender::{Contender, Failure},
    locks::{Order, lock, ping},
    report::{Figures, quantile},
    traffic::scripts,
};

/// How many others have delegated the resource that is written.
const DELEGATING: [usize; 4] = [0, 1, 2, 16];
const ROUNDS: u32 = 101;
const WAIT: Duration = Duration::from_secs(10);

/// A write of a resource that others have delegated to themselves, each on a connection of its own.
pub(crate) async fn writes(server: &RedisServer) -> Result<Figures, Failure> {
    let mut readers = Vec::new();
    for _ in 0..DELEGATING[DELEGATING.len() - 1] {
        readers.push(Locks::new(&Redis::connect(server.url()).await?));
    }
    let writer = Locks::new(&Redis::connect(server.url()).await?);
    let mut measured = DELEGATING.map(|delegating| (delegating, Vec::new(), 0.0));
    for round in 0..ROUNDS {
        for (delegating, micros, sent) in &mut measured {
            let order = Order(format!("wanted {delegating} {round}"));
            try_join_all(readers[..*delegating].iter().map(|locks| delegated(locks, &order))).await?;
            let before = scripts(server).await?;
            let began = Instant::now();
            writer.write(&order).wait(WAIT).acquire().await?.release().await?;
            micros.push(began.elapsed().as_secs_f64() * 1e6);
            *sent += scripts(server).await? - before;
        }
    }
    let row = |(delegating, micros, sent): (usize, Vec<f64>, f64)| {
        let values = vec![quantile(micros.clone(), 0.5), quantile(micros, 0.9), sent / f64::from(ROUNDS)];
        (format!("delegated to {delegating} others"), values)
    };
    Figures::new(
        "a write of what others read all the time",
        &["µs", "slowest tenth from, µs", "scripts, theirs included"],
        measured.into_iter().map(row).collect(),
    )
}

/// The second read within a second begins a delegation.
async fn delegated(locks: &Locks, order: &Order) -> Result<(), Failure> {
    for _ in 0..2 {
        locks.read(order).wait(WAIT).delegate().acquire().await?.release().await?;
    }
    Ok(())
}

/// Readers of one resource, all in one process, next to readers of a different resource each.
pub(crate) async fn crowd(server: &RedisServer) -> Result<Vec<Contender>, Failure> {
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let locks = Locks::new(&Redis::connect(server.url()).await?);
    let (apart, writers) = (locks.clone(), locks.clone());
    Ok(vec![
        Contender::new("PING", move |_| ping(connection.clone())),
        Contender::new("a write lock, a resource for each", move |task| lock(writers.clone(), task)),
        Contender::new("a delegated read, a resource for each", move |task| {
            read(apart.clone(), format!("apart {task}"))
        }),
        Contender::new("a delegated read, one resource for all", move |_| read(locks.clone(), "one".to_owned())),
    ])
}

async fn read(locks: Locks, order: String) -> Result<(), Failure> {
    locks.read(&Order(order)).wait(WAIT).delegate().acquire().await?.release().await?;
    Ok(())
}
