//! The state that handlers share.

use std::{
    ops::Deref,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use sqlx::PgPool;
use stockade::{
    Locks,
    cache::{Bloom, Cache, WarmProgress},
    postgres::Tx,
};

use crate::{
    attack::Attacks,
    domain::{Sku, Stock},
    flash::Flash,
    lab::Lab,
    probe::Probe,
};

/// The state of the service. The router clones it several times for each request, so a clone is one count.
#[derive(Clone, Debug)]
pub struct App(Arc<Shared>);

/// What all handlers share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The database.
    pub pg: PgPool,
    /// What probes ask of the database.
    pub probe: Probe,
    /// The locks.
    pub locks: Locks,
    /// Whether reads of one SKU share a lock. On a quorum of servers there are exclusive locks only.
    pub shared_reads: bool,
    /// Stock by SKU, cached.
    pub stocks: Cache<Sku, Stock>,
    /// The filter of the SKUs that exist; `None` without one.
    pub filter: Option<Bloom>,
    /// The flash sales.
    pub flash: Flash,
    /// The schemes of the lab, while they are on.
    pub lab: Option<Lab>,
    /// The attacks of the lab, while it is on.
    pub attacks: Option<Attacks>,
    /// The limits of requests.
    pub limits: Limits,
    /// The progress of the warm-up. The instance is not ready before the warm-up has ended.
    pub warm_up: WarmProgress,
    /// Which answers are logged.
    pub answers: LoggedAnswers,
    /// Whether the instance is going away: it is not ready any more, and ends the requests that have begun.
    pub draining: Arc<AtomicBool>,
}

impl From<Shared> for App {
    fn from(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// Adds a SKU that this transaction creates to the filter, before it commits.
    pub(crate) fn creates(&self, tx: &mut Tx, sku: &Sku) {
        if let Some(filter) = &self.filter {
            tx.add(filter, sku);
        }
    }
}

/// Which answers have a line in the log at level `info` or above. The others have theirs at `debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedAnswers {
    /// Refusals and errors: everything but 2xx and 304.
    Refusals,
    /// One line per request.
    All,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a request waits for its lock.
    pub lock_wait: Duration,
    /// How long a read waits for its lock before it goes on without.
    pub read_wait: Duration,
    /// How long a whole request may take.
    pub request: Duration,
    /// How long an answer is kept for a request that comes again with the same Idempotency-Key.
    pub idempotency_ttl: Duration,
}
