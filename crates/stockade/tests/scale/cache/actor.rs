//! The work of each process of a history: it reads, writes, and notes both.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use stockade::{
    Cache,
    cache::Source,
    postgres::{Relay, Tx},
};
use tokio::{task::JoinSet, time::sleep};

use super::{
    item::{self, Failure, KEYS, item, loader},
    record::{What, now},
    site::Seat,
    worker::Worker,
};

const READERS: usize = 4;

impl Worker {
    async fn read(&self, mut random: StdRng) {
        while !self.over.load(Ordering::Relaxed) {
            let key = random.random_range(0..KEYS);
            let begin = now();
            // A load that is refused or fails has no answer to note.
            if let Ok(lookup) = self.cache.get(&item(key)).await {
                let what = if lookup.info.source == Source::Redis { What::Hit } else { What::Load };
                self.log.note(what, key, begin, *lookup.value.unwrap());
            }
            sleep(Duration::from_micros(random.random_range(0..2000))).await;
        }
    }

    /// Reads from the database directly. A reader that asks the cache afterwards must not find an older value there.
    async fn read_database(&self, mut random: StdRng) {
        while !self.over.load(Ordering::Relaxed) {
            let begin = now();
            let rows: Result<Vec<(i16, i64)>, _> =
                sqlx::query_as("select key, version from item").fetch_all(&self.pool).await;
            for (key, version) in rows.unwrap_or_default() {
                self.log.note(What::Database, key.try_into().unwrap(), begin, version);
            }
            sleep(Duration::from_micros(random.random_range(0..1500))).await;
        }
    }

    async fn write(&self, fenced: bool, mut random: StdRng) {
        while !self.written.load(Ordering::Relaxed) {
            let key = random.random_range(0..KEYS);
            // A refused write has not happened. If a write fails otherwise, the database knows its outcome.
            let _ = if fenced { self.write_fenced(key).await } else { self.write_unfenced(key).await };
            sleep(Duration::from_millis(random.random_range(40..400))).await;
        }
    }

    async fn write_unfenced(&self, key: u8) -> Result<(), Failure> {
        let begin = now();
        let tx = Tx::unfenced(&self.pool).await?;
        item::write(tx, &self.cache, &self.log, key, begin).await
    }
}

/// The whole life of a process. The role names the file of its log, and the seed of its random numbers.
pub(super) async fn act(role: &str, seat: Seat) {
    let (path, seed) = role.split_once(' ').unwrap();
    let mut random = StdRng::seed_from_u64(seed.parse().unwrap());
    // The lifetimes are short, so that values also expire and are refreshed early while they are written.
    let lives = Duration::from_millis(300)..=Duration::from_millis(1500);
    let cache = Cache::builder(&seat.redis).ttl(lives).loader(loader(&seat.pool)).strict(&seat.pool).build();
    let relay = Relay::spawn(seat.pool.clone(), [cache.invalidator()]);
    let actor = Worker::new(path, cache, seat);
    let (mut writers, mut readers) = (JoinSet::new(), JoinSet::new());
    let mut next = || StdRng::seed_from_u64(random.random());
    for fenced in [false, true] {
        let (actor, random) = (Arc::clone(&actor), next());
        writers.spawn(async move { actor.write(fenced, random).await });
    }
    for _ in 0..READERS {
        let (actor, random) = (Arc::clone(&actor), next());
        readers.spawn(async move { actor.read(random).await });
    }
    let (witness, random) = (Arc::clone(&actor), next());
    readers.spawn(async move { witness.read_database(random).await });
    actor.live(relay, writers, readers).await;
}
