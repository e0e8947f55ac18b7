use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use stockade::cache::{CacheError, Lookup, Source};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Database, Stock, Stocks, eventually, sku};
use crate::world;

pub(in crate::cache) fn quantity(lookup: &Lookup<Stock>) -> Option<u64> {
    lookup.value.as_ref().map(|stock| stock.quantity)
}

/// The value that a read finds now.
pub(in crate::cache) async fn get(stocks: &Stocks, id: &str) -> Lookup<Stock> {
    stocks.get(&sku(id)).await.unwrap()
}

/// Reads on tasks of their own.
pub(in crate::cache) type Reads = JoinSet<Result<Lookup<Stock>, CacheError>>;

/// Begins one more read.
pub(in crate::cache) fn reading(reads: &mut Reads, stocks: &Stocks, id: &str) {
    let (stocks, id) = (stocks.clone(), sku(id));
    reads.spawn(async move { stocks.get(&id).await });
}

/// A read that begins now.
pub(in crate::cache) fn one_read(stocks: &Stocks, id: &str) -> Reads {
    let mut reads = Reads::new();
    reading(&mut reads, stocks, id);
    reads
}

/// Begins a read whose load stops after it has read its row. A permit for the gate lets the load go on.
pub(in crate::cache) async fn held_load(database: &Database, stocks: &Stocks, id: &str) -> (Arc<Semaphore>, Reads) {
    let (gate, reads) = (database.shut(), one_read(stocks, id));
    database.queried().await;
    (gate, reads)
}

/// Fifty reads that begin now.
pub(in crate::cache) fn crowd(stocks: &Stocks, id: &str) -> Reads {
    let mut reads = Reads::new();
    for _ in 0..50 {
        reading(&mut reads, stocks, id);
    }
    reads
}

/// The result of the next read to end.
pub(in crate::cache) async fn ended(reads: &mut Reads) -> Lookup<Stock> {
    reads.join_next().await.unwrap().unwrap().unwrap()
}

/// Writes 300 times while eight tasks read. `tell` invalidates each write. Within the limit every read must see it.
pub(in crate::cache) async fn race(database: &Database, reader: &Stocks, limit: Duration, tell: impl AsyncFn()) {
    let stop = CancellationToken::new();
    let mut readers = JoinSet::new();
    for _ in 0..8 {
        let (reader, stop) = (reader.clone(), stop.clone());
        readers.spawn(async move {
            while !stop.is_cancelled() {
                get(&reader, "a").await;
                tokio::task::yield_now().await;
            }
        });
    }
    for version in 1..=300 {
        database.write("a", Some(version));
        tell().await;
        let limit = Instant::now() + limit;
        while quantity(&get(reader, "a").await) != Some(version) {
            assert!(Instant::now() < limit, "write {version} is not seen");
        }
    }
    stop.cancel();
    readers.join_all().await;
    assert!(reader.stats().hits_local > 100, "{:?}", reader.stats());
}

/// [`world::caught_up`] with a key that no cache has seen. Costs one load.
pub(in crate::cache) async fn caught_up(stocks: &Stocks) {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let unseen = format!("something else {}", SEEN.fetch_add(1, Ordering::SeqCst));
    world::caught_up(stocks, &sku(&unseen)).await;
}

/// Reads until the value comes from the memory of this process. The first read may fill the memory.
pub(in crate::cache) async fn warm(stocks: &Stocks, id: &str) {
    eventually("the value is in this process", || async { get(stocks, id).await.info.source == Source::Local }).await;
}
