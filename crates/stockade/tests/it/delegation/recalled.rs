//! A writer gets the resource after the readers inside and before later readers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use stockade::{LockError, Locks};
use stockade_testbed::eventually;
use tokio::task::JoinSet;

use super::support::{LIMIT, SHORT, Sku, delegated, delegations, locks, read, read_within, waiting};
use crate::{redis_traffic::calls, world::World};

#[tokio::test]
async fn a_writer_comes_after_the_readers_inside_and_before_those_who_come_later() {
    const READERS: usize = 1000;
    let world = World::start().await;
    let (one, two, writer) = (locks(&world).await, locks(&world).await, locks(&world).await);
    let mut inside = Vec::new();
    for process in [&one, &two] {
        delegated(process, "1").await;
        for _ in 0..READERS {
            inside.push(read(process, "1").await);
        }
    }
    assert_eq!(delegations(&one, "1").await, 2);
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.write(&Sku("1")).wait(LIMIT).acquire());
    waiting(&writer, "stock:1", 1).await;
    for process in [&one, &two] {
        // A message recalls the delegation. No reader enters any more, and those inside are still renewed.
        let process = process.clone();
        eventually("recalled", async || {
            matches!(read_within(&process, "1", SHORT).await, Err(LockError::Timeout { .. }))
        })
        .await;
    }
    let last = inside.pop().unwrap();
    inside.clear();
    waiting(&writer, "stock:1", 1).await;
    assert!(last.is_held());
    let later = [&one, &two].map(|process| process.read(&Sku("1")).wait(LIMIT).delegate().acquire());
    let mut readers = JoinSet::new();
    later.into_iter().for_each(|later| drop(readers.spawn(later)));
    waiting(&writer, "stock:1", 3).await;
    drop(last);
    let written = tasks.join_next().await.unwrap().unwrap().unwrap();
    let token = written.token();
    written.release().await.unwrap();
    assert!(readers.join_all().await.into_iter().all(|later| later.unwrap().token() > token));
    world.end().await;
}

#[tokio::test]
async fn a_write_of_the_same_process_recalls_before_it_asks() {
    let world = World::start().await;
    let locks = locks(&world).await;
    delegated(&locks, "1").await;
    world.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let written = locks.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap();
    // The delegation is released before the write is sent, so the write finds the resource free.
    assert_eq!(calls(&world).await.get("publish"), None, "nobody had to be told anything");
    drop(written);
    delegated(&locks, "2").await;
    delegated(&locks, "3").await;
    let both = [Sku("2"), Sku("3")];
    assert!(locks.write_all(&both).try_acquire().await.unwrap().is_some());
    world.end().await;
}

/// A process that reads all the time, with a count of its reads.
struct Reading {
    stop: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Reading {
    fn start(locks: &Locks, skus: &[&'static str]) -> Self {
        let (stop, reads) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        for sku in skus {
            let (locks, stop, reads, sku) = (locks.clone(), Arc::clone(&stop), Arc::clone(&reads), *sku);
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    drop(read(&locks, sku).await);
                    reads.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
        }
        Self { stop, reads, tasks }
    }

    /// Waits until the resources are held only by delegations, and a hundred reads have used them.
    async fn in_full_swing(&self, locks: &Locks, skus: &[&'static str]) {
        let before = self.reads.load(Ordering::Relaxed);
        eventually("read by delegation", async || {
            for sku in skus {
                let found = locks.inspect(&Sku(sku)).await.unwrap();
                let by_delegation = found.holders.iter().all(|holder| holder.tag == "delegation");
                if found.holders.is_empty() || !by_delegation || found.waiting > 0 {
                    return false;
                }
            }
            self.reads.load(Ordering::Relaxed) > before + 100
        })
        .await;
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

/// Makes twenty attempts that don't wait, while another process reads all the time. Returns how many were served.
async fn served(sku: &[&'static str], attempt: impl AsyncFn(&Locks) -> Result<bool, LockError>) -> usize {
    let world = World::start().await;
    let (reader, other) = (locks(&world).await, locks(&world).await);
    let reading = Reading::start(&reader, sku);
    let mut served = 0;
    for _ in 0..20 {
        reading.in_full_swing(&other, sku).await;
        served += usize::from(attempt(&other).await.unwrap());
    }
    reading.stop().await;
    world.end().await;
    served
}

/// How many of the twenty must be served. A busy machine may keep a reader inside for longer than an attempt waits.
const MOST: usize = 15;

#[tokio::test]
async fn an_attempt_that_does_not_wait_is_served() {
    let written = served(&["1"], async |locks| Ok(locks.write(&Sku("1")).try_acquire().await?.is_some())).await;
    assert!(written >= MOST, "{written} of 20");
}

#[tokio::test]
async fn a_permit_is_served() {
    let taken = served(&["1"], async |locks| Ok(locks.semaphore(&Sku("1"), 2).try_acquire().await?.is_some())).await;
    assert!(taken >= MOST, "{taken} of 20");
}

#[tokio::test]
async fn several_at_once_are_served() {
    let both = [Sku("1"), Sku("2")];
    let taken = served(&["1", "2"], async |locks| Ok(locks.write_all(&both).try_acquire().await?.is_some())).await;
    assert!(taken >= MOST, "{taken} of 20");
}

#[tokio::test]
async fn an_attempt_that_does_not_wait_finds_readers_in_its_way_who_stay() {
    let world = World::start().await;
    let (reader, other) = (locks(&world).await, locks(&world).await);
    delegated(&reader, "1").await;
    let inside = read(&reader, "1").await;
    assert!(other.write(&Sku("1")).try_acquire().await.unwrap().is_none());
    let refused = other.write(&Sku("1")).wait(std::time::Duration::ZERO).acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::Busy { .. }), "{refused}");
    assert_eq!(other.inspect(&Sku("1")).await.unwrap().waiting, 0);
    drop(inside);
    world.end().await;
}
