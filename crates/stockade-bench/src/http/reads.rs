use std::sync::Arc;

use super::{
    Share, TASKS, World,
    wire::{get, post},
    world::{SKUS, contender, counted, sku},
};
use crate::contender::{Contender, Failure};

/// The requests of all connections in one round: each has the same whole number of writes.
pub(crate) const REQUESTS: u32 = 200 * TASKS;

/// A warm read of one of 2,000 SKUs, next to the smallest handler that could answer it, and from where the service said
/// that it answered.
pub(crate) async fn reads(world: &World) -> Result<(Vec<Contender>, [Arc<Share>; 2]), Failure> {
    let of = |path: &'static str| move |task, turn| get(&format!("{path}/S{}", sku(task, turn, SKUS)));
    let (warm, from_memory) =
        counted("stockade, GET /stock/{sku}, warm", &world.service, of("/stock"), "detail=local").await?;
    let name = "stockade, the same undelegated, hits in Redis";
    let (undelegated, from_redis) = counted(name, &world.within, of("/undelegated/stock"), "detail=redis").await?;
    let contenders = vec![
        contender("one SELECT", &world.floor, of("/select")).await?,
        contender("one SELECT, within the service's layers", &world.within, of("/select")).await?,
        contender("one Redis GET", &world.floor, of("/redis")).await?,
        contender("a fixed answer", &world.floor, of("/static")).await?,
        contender("a fixed answer, within the service's layers", &world.within, of("/static")).await?,
        warm,
        undelegated,
    ];
    Ok((contenders, [from_memory, from_redis]))
}

/// Warm reads while one request in a hundred is a write.
pub(crate) async fn reads_among_writes(world: &World) -> Result<Vec<Contender>, Failure> {
    let of = |path: &'static str| move |task, turn| get(&format!("{path}/S{}", sku(task, turn, SKUS)));
    let mixed = |task: u32, turn: u32| {
        let sku = sku(task, turn, SKUS);
        if writes(task, turn) {
            post(&format!("/stock/S{sku}/adjustments"), "{\"delta\":1}")
        } else {
            get(&format!("/stock/S{sku}"))
        }
    };
    Ok(vec![
        contender("one SELECT, no writes", &world.floor, of("/select")).await?,
        contender("stockade, no writes", &world.service, of("/stock")).await?,
        contender("stockade, one write in a hundred", &world.service, mixed).await?,
    ])
}

/// Whether this request is the write. The connections write in turns, not all at the same moment.
fn writes(task: u32, turn: u32) -> bool {
    (turn + task * 100 / TASKS).is_multiple_of(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_in_a_hundred_of_every_round_is_a_write_and_no_turn_has_two() {
        let turns = REQUESTS / TASKS;
        for begin in [1, 2, 77, 1 + turns] {
            let written = |turn| (0..TASKS).filter(|task| writes(*task, turn)).count();
            let round: Vec<_> = (begin..begin + turns).map(written).collect();
            assert_eq!(round.iter().sum::<usize>() * 100, REQUESTS as usize, "from {begin}");
            assert!(round.iter().all(|writes| *writes <= 1), "from {begin}: {round:?}");
        }
    }
}
