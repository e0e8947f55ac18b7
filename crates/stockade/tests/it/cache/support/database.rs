use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use stockade::{
    Cache, Redis, Resource,
    cache::{CacheBuilder, CacheError, Lookup, Source},
};
use stockade_testbed::RedisServer;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::world::{self, cached};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sku(pub(super) String);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

pub(super) fn sku(id: &str) -> Sku {
    Sku(id.to_owned())
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stock {
    pub(super) quantity: u64,
}

/// A database of one table, with gates to hold its queries and a count of them.
#[derive(Debug, Default)]
pub(super) struct Database {
    rows: Mutex<HashMap<String, u64>>,
    pub(super) loads: AtomicUsize,
    pub(super) running: AtomicUsize,
    pub(super) most_running: AtomicUsize,
    down: AtomicBool,
    panics: AtomicBool,
    /// How long a query takes after it has read its row.
    slow: Mutex<Duration>,
    /// While shut, queries that have read their row wait for it.
    gate: Mutex<Option<Arc<Semaphore>>>,
    read: Notify,
}

impl Database {
    pub(super) fn with(rows: &[(&str, u64)]) -> Arc<Self> {
        let database = Self::default();
        for (id, quantity) in rows {
            database.write(id, Some(*quantity));
        }
        Arc::new(database)
    }

    pub(super) fn write(&self, id: &str, quantity: Option<u64>) {
        let mut rows = self.rows.lock().unwrap();
        match quantity {
            Some(quantity) => rows.insert(id.to_owned(), quantity),
            None => rows.remove(id),
        };
    }

    pub(super) fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    pub(super) fn slow(&self, duration: Duration) {
        *self.slow.lock().unwrap() = duration;
    }

    pub(super) fn down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    pub(super) fn panics(&self, panics: bool) {
        self.panics.store(panics, Ordering::SeqCst);
    }

    /// From now on queries stop after reading their row; each permit added lets one go on.
    pub(super) fn shut(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock().unwrap() = Some(Arc::clone(&gate));
        // News of an earlier query is none of the next.
        let _ = self.read.notified().now_or_never();
        gate
    }

    /// Queries that begin from now on are not held.
    pub(super) fn open(&self) {
        *self.gate.lock().unwrap() = None;
    }

    /// Waits until a query has read its row, ten seconds at most.
    pub(super) async fn queried(&self) {
        let read = tokio::time::timeout(Duration::from_secs(10), self.read.notified()).await;
        assert!(read.is_ok(), "no query within ten seconds");
    }

    /// One query for several rows.
    pub(super) async fn query_many(&self, keys: &[Sku]) -> Result<Vec<(Sku, Option<Stock>)>, std::io::Error> {
        let first = keys.first().map(|key| key.0.clone()).unwrap_or_default();
        let row = |key: &Sku| {
            let quantity = *self.rows.lock().unwrap().get(&key.0)?;
            Some((key.clone(), Some(Stock { quantity })))
        };
        let rows = keys.iter().filter_map(row).collect();
        self.query(&first).await?;
        Ok(rows)
    }

    pub(super) async fn query(&self, id: &str) -> Result<Option<Stock>, std::io::Error> {
        struct Running<'a>(&'a AtomicUsize);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }

        self.loads.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        let _running = Running(&self.running);
        self.most_running.fetch_max(running, Ordering::SeqCst);
        assert!(!self.panics.load(Ordering::SeqCst), "asked to");
        let row = self.rows.lock().unwrap().get(id).map(|quantity| Stock { quantity: *quantity });
        let gate = self.gate.lock().unwrap().clone();
        self.read.notify_one();
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
        let slow = *self.slow.lock().unwrap();
        if !slow.is_zero() {
            tokio::time::sleep(slow).await;
        }
        if self.down.load(Ordering::SeqCst) {
            return Err(std::io::Error::other("the database is down"));
        }
        Ok(row)
    }
}

pub(super) type Stocks = Cache<Sku, Stock>;

/// A cache of its own, as another process would have it.
pub(super) async fn process(server: &RedisServer) -> CacheBuilder<Sku, Stock> {
    process_at(&server.url()).await
}

/// One whose commands and loads may take as long as they need on a machine with other things to do.
pub(super) async fn patient(url: &str) -> CacheBuilder<Sku, Stock> {
    Cache::builder(&world::patient(url).await.namespace("shop")).load_timeout(Duration::from_secs(60))
}

pub(super) async fn process_at(url: &str) -> CacheBuilder<Sku, Stock> {
    let redis = Redis::connect(url).await.unwrap().namespace("shop");
    Cache::builder(&redis)
}

pub(super) trait Loading {
    /// Builds on this database and waits until the cache is on line.
    async fn on(self, database: &Arc<Database>) -> Stocks;

    fn loading(self, database: &Arc<Database>) -> Self;

    /// Loads several at once, too.
    fn batching(self, database: &Arc<Database>) -> Self;
}

impl Loading for CacheBuilder<Sku, Stock> {
    async fn on(self, database: &Arc<Database>) -> Stocks {
        let stocks = cached(self.loading(database).build());
        eventually("the cache is on line", || async { !stocks.is_degraded() }).await;
        stocks
    }

    fn loading(self, database: &Arc<Database>) -> Self {
        let database = Arc::clone(database);
        self.loader(move |sku: Sku| {
            let database = Arc::clone(&database);
            async move { database.query(&sku.0).await }
        })
    }

    fn batching(self, database: &Arc<Database>) -> Self {
        let database = Arc::clone(database);
        self.batch_loader(move |keys: Vec<Sku>| {
            let database = Arc::clone(&database);
            async move { database.query_many(&keys).await }
        })
    }
}

pub(super) fn quantity(lookup: &Lookup<Stock>) -> Option<u64> {
    lookup.value.as_ref().map(|stock| stock.quantity)
}

/// The value that a read finds now.
pub(super) async fn get(stocks: &Stocks, id: &str) -> Lookup<Stock> {
    stocks.get(&sku(id)).await.unwrap()
}

/// Reads on tasks of their own.
pub(super) type Reads = JoinSet<Result<Lookup<Stock>, CacheError>>;

/// One more of them.
pub(super) fn reading(reads: &mut Reads, stocks: &Stocks, id: &str) {
    let (stocks, id) = (stocks.clone(), sku(id));
    reads.spawn(async move { stocks.get(&id).await });
}

/// Fifty that begin now.
pub(super) fn crowd(stocks: &Stocks, id: &str) -> Reads {
    let mut reads = Reads::new();
    for _ in 0..50 {
        reading(&mut reads, stocks, id);
    }
    reads
}

/// What the next of them to end has found.
pub(super) async fn ended(reads: &mut Reads) -> Lookup<Stock> {
    reads.join_next().await.unwrap().unwrap().unwrap()
}

/// Waits until a reader waits for the load of another process.
pub(super) async fn signed_up(server: &RedisServer, id: &str) {
    eventually("a reader waits for the load", || async {
        let key = entry_key(server, id).await;
        server.command(&["HKEYS", &key]).await.unwrap().contains("w:")
    })
    .await;
}

/// Writes 300 times while eight tasks read. Each write is told by `tell`, and seen within the limit from then on.
pub(super) async fn race(database: &Database, reader: &Stocks, limit: Duration, tell: impl AsyncFn()) {
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
    while let Some(ended) = readers.join_next().await {
        ended.unwrap();
    }
    assert!(reader.stats().hits_local > 100, "{:?}", reader.stats());
}

/// [`world::caught_up`] with something that no cache has seen: it costs one load.
pub(super) async fn caught_up(stocks: &Stocks) {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let unseen = format!("something else {}", SEEN.fetch_add(1, Ordering::SeqCst));
    world::caught_up(stocks, &sku(&unseen)).await;
}

/// A read from the memory of this process, read twice so that the first may fill it.
pub(super) async fn warm(stocks: &Stocks, id: &str) {
    eventually("the value is in this process", || async { get(stocks, id).await.info.source == Source::Local }).await;
}

/// Waits until the condition holds, ten seconds at most.
pub(super) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !holds().await {
        assert!(Instant::now() < limit, "not within ten seconds: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The Redis key of an entry that was leased or stored.
pub(super) async fn entry_key(server: &RedisServer, id: &str) -> String {
    server.command(&["KEYS", &format!("shop:v1:{{*}}e:stock:stock:{id}")]).await.unwrap()
}

/// Whether Redis holds a value for it.
pub(super) async fn stored(server: &RedisServer, id: &str) -> bool {
    let key = entry_key(server, id).await;
    !key.is_empty() && field(server, &key, "v").await.is_some()
}

/// The name that a field of an entry has there, when one version of the program has it.
pub(super) async fn field(server: &RedisServer, key: &str, name: &str) -> Option<String> {
    let fields = server.command(&["HKEYS", key]).await.unwrap();
    let mut named = fields.lines().filter(|field| field.split(':').next() == Some(name));
    let found = named.next().map(ToOwned::to_owned);
    assert_eq!(named.next(), None, "two versions have `{name}`");
    found
}
