//! What each process of a history has, and its life.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::PgPool;
use stockade::{Cache, Locks, postgres::Relay};
use tokio::task::JoinSet;

use super::{
    item::{self, Failure, item},
    record::{Log, now},
    site::Seat,
};
use crate::{
    child::{say, wait_for_parent},
    support::Item,
};

pub(super) struct Worker {
    pub(super) cache: Cache<Item, i64>,
    pub(super) locks: Locks,
    pub(super) pool: PgPool,
    pub(super) log: Log,
    /// Set when no write may begin any more.
    pub(super) written: AtomicBool,
    pub(super) over: AtomicBool,
}

impl Worker {
    /// `path` names the file of its log.
    pub(super) fn new(path: &str, cache: Cache<Item, i64>, seat: Seat) -> Arc<Self> {
        Arc::new(Self {
            cache,
            locks: Locks::builder().lease(Duration::from_secs(1)).redis(&seat.locks),
            pool: seat.pool,
            log: Log::create(Path::new(path)),
            written: AtomicBool::new(false),
            over: AtomicBool::new(false),
        })
    }

    pub(super) async fn write_fenced(&self, key: u8) -> Result<(), Failure> {
        let guard = self.locks.write(&item(key)).wait(Duration::from_secs(2)).acquire().await?;
        let begin = now();
        let tx = guard.begin(&self.pool).await?;
        item::write(tx, &self.cache, &self.log, key, begin).await?;
        guard.release().await?;
        Ok(())
    }

    /// Lets the tasks work until the parent says that nothing is to be written, and then that all is over.
    pub(super) async fn live(&self, relay: Relay, writers: JoinSet<()>, readers: JoinSet<()>) {
        say("ready");
        wait_for_parent().await;
        self.written.store(true, Ordering::Relaxed);
        writers.join_all().await;
        say("written");
        wait_for_parent().await;
        self.over.store(true, Ordering::Relaxed);
        readers.join_all().await;
        assert_eq!(self.cache.stats().fetching, 0, "a flight is left");
        relay.shutdown(Duration::from_secs(5)).await;
        self.cache.shutdown(Duration::from_secs(5)).await;
        self.locks.shutdown(Duration::from_secs(5)).await;
        self.pool.close().await;
        say("over");
    }
}
