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
use stockade::Resource;
use tokio::sync::{Notify, Semaphore};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::cache) struct Sku(pub(in crate::cache) String);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

pub(in crate::cache) fn sku(id: &str) -> Sku {
    Sku(id.to_owned())
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cache) struct Stock {
    pub(in crate::cache) quantity: u64,
}

/// A database of one table, with gates to hold its queries and a count of them.
#[derive(Debug, Default)]
pub(in crate::cache) struct Database {
    rows: Mutex<HashMap<String, u64>>,
    pub(in crate::cache) loads: AtomicUsize,
    pub(in crate::cache) running: AtomicUsize,
    pub(in crate::cache) most_running: AtomicUsize,
    down: AtomicBool,
    panics: AtomicBool,
    /// Rows that can't be loaded, and how often each was tried.
    bad: Mutex<HashMap<String, (Bad, usize)>>,
    /// How long a query takes after it has read its row.
    slow: Mutex<Duration>,
    /// While the gate is shut, a query waits here after it has read its row.
    gate: Mutex<Option<Arc<Semaphore>>>,
    read: Notify,
}

/// The result of a query for a row that can't be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Bad {
    Fails,
    Panics,
    Hangs,
}

impl Database {
    pub(in crate::cache) fn with(rows: &[(&str, u64)]) -> Arc<Self> {
        let database = Self::default();
        for (id, quantity) in rows {
            database.write(id, Some(*quantity));
        }
        Arc::new(database)
    }

    pub(in crate::cache) fn write(&self, id: &str, quantity: Option<u64>) {
        let mut rows = self.rows.lock().unwrap();
        match quantity {
            Some(quantity) => rows.insert(id.to_owned(), quantity),
            None => rows.remove(id),
        };
    }

    pub(in crate::cache) fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    pub(in crate::cache) fn slow(&self, duration: Duration) {
        *self.slow.lock().unwrap() = duration;
    }

    pub(in crate::cache) fn down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    pub(in crate::cache) fn panics(&self, panics: bool) {
        self.panics.store(panics, Ordering::SeqCst);
    }

    /// From now on every query that includes this row fails, panics or hangs.
    pub(in crate::cache) fn spoil(&self, id: &str, bad: Bad) {
        self.bad.lock().unwrap().insert(id.to_owned(), (bad, 0));
    }

    /// From now on queries of this row succeed again. Returns how often the row was tried meanwhile.
    pub(in crate::cache) fn mend(&self, id: &str) -> usize {
        self.bad.lock().unwrap().remove(id).map_or(0, |(_, tried)| tried)
    }

    fn bad(&self, ids: &[&str]) -> Option<Bad> {
        let mut bad = self.bad.lock().unwrap();
        let id = ids.iter().find(|id| bad.contains_key(**id))?;
        let (bad, tried) = bad.get_mut(*id)?;
        *tried += 1;
        Some(*bad)
    }

    /// From now on a query stops after it has read its row. Each permit that is added lets one query go on.
    pub(in crate::cache) fn shut(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock().unwrap() = Some(Arc::clone(&gate));
        // Forget the notification of an earlier query.
        let _ = self.read.notified().now_or_never();
        gate
    }

    /// Queries that begin from now on are not held.
    pub(in crate::cache) fn open(&self) {
        *self.gate.lock().unwrap() = None;
    }

    /// Waits until a query has read its row, ten seconds at most.
    pub(in crate::cache) async fn queried(&self) {
        let read = tokio::time::timeout(Duration::from_secs(10), self.read.notified()).await;
        assert!(read.is_ok(), "no query within ten seconds");
    }

    /// One query for several rows.
    pub(in crate::cache) async fn query_many(&self, keys: &[Sku]) -> Result<Vec<(Sku, Option<Stock>)>, std::io::Error> {
        let first = keys.first().map(|key| key.0.clone()).unwrap_or_default();
        let row = |key: &Sku| {
            let quantity = *self.rows.lock().unwrap().get(&key.0)?;
            Some((key.clone(), Some(Stock { quantity })))
        };
        let rows = keys.iter().filter_map(row).collect();
        let ids: Vec<_> = keys.iter().map(|key| key.0.as_str()).collect();
        self.query_any(&first, &ids).await?;
        Ok(rows)
    }

    pub(in crate::cache) async fn query(&self, id: &str) -> Result<Option<Stock>, std::io::Error> {
        self.query_any(id, &[id]).await
    }

    /// The row of `id`, by a query that also reads others.
    async fn query_any(&self, id: &str, all: &[&str]) -> Result<Option<Stock>, std::io::Error> {
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
        match self.bad(all) {
            None => {}
            Some(Bad::Fails) => return Err(std::io::Error::other("this row can't be read")),
            Some(Bad::Panics) => panic!("asked to"),
            Some(Bad::Hangs) => std::future::pending().await,
        }
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
