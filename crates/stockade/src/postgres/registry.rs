//! The state that this process keeps for each pool.

use std::sync::{
    Arc, LazyLock, Weak,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use sqlx::{PgPool, postgres::PgConnectOptions};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::{FenceError, install, wanted::Wanted};

/// How many applied rows are remembered between two rounds of the relay. The relay applies further rows a second time.
const MAX_FLUSHED: usize = 65_536;

/// A pool is recognised by the address of its options. After `PgPool::set_connect_options` it counts as another pool: its
/// relay then applies again what the transactions have applied, until a new relay is spawned. The weak pointer
/// keeps the allocator from giving the address to the options of another pool.
static POOLS: LazyLock<Mutex<Vec<(Weak<PgConnectOptions>, Arc<PoolState>)>>> = LazyLock::new(Mutex::default);

/// Shared by the transactions and the relay of one pool.
#[derive(Debug)]
pub(super) struct PoolState {
    schema_checked: AtomicBool,
    /// Outbox rows whose invalidation was applied by the committer; `None` while no relay runs on this pool.
    flushed: Mutex<Option<Vec<i64>>>,
    pub(super) wanted: Wanted,
    /// Tasks that no caller waits for.
    pub(super) tasks: TaskTracker,
    /// The places of changes of group commits that wait for a row. While somebody holds many rows, most connections stay
    /// for others.
    pub(super) patient: Semaphore,
}

impl PoolState {
    pub(super) fn of(pool: &PgPool) -> Arc<Self> {
        let options = pool.connect_options();
        let mut pools = POOLS.lock();
        if let Some((_, state)) = pools.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(&options)) {
            return Arc::clone(state);
        }
        pools.retain(|(known, _)| known.strong_count() > 0);
        let state = Arc::new(Self {
            schema_checked: AtomicBool::default(),
            flushed: Mutex::default(),
            wanted: Wanted::default(),
            tasks: TaskTracker::default(),
            patient: Semaphore::new((pool.options().get_max_connections() as usize / 4).max(1)),
        });
        pools.push((Arc::downgrade(&options), Arc::clone(&state)));
        state
    }

    /// Checks the schema version once per pool.
    pub(super) async fn check_schema(&self, pool: &PgPool) -> Result<(), FenceError> {
        if !self.schema_checked.load(Ordering::Acquire) {
            install::check(pool).await?;
            self.schema_checked.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Collects applied rows for a relay from now on.
    pub(super) fn collect(&self) {
        self.flushed.lock().get_or_insert_default();
    }

    /// Notes rows whose invalidation was applied, so that the relay marks them and does not apply them again.
    pub(super) fn flushed(&self, rows: &[i64]) {
        if let Some(flushed) = self.flushed.lock().as_mut()
            && flushed.len() + rows.len() <= MAX_FLUSHED
        {
            flushed.extend_from_slice(rows);
        }
    }

    /// Takes the collected rows.
    pub(super) fn take_flushed(&self) -> Vec<i64> {
        self.flushed.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }
}
