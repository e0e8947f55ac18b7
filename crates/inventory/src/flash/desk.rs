use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use sqlx::PgPool;
use stockade::Redis;
use time::OffsetDateTime;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::{
    Answer, Asked, FlashError, LinkError, Made, Sale, SaleId, Stage, counter::Counter, reconcile, waiters::Waiters,
};
use crate::{console::chain, db, domain::Sku, trouble::Trouble};

/// How many requests at once may ask Postgres what the counter does not say. They leave connections for writes, for
/// loads and for the keeper.
const PLACES: usize = 4;

/// How flash sales are run.
#[derive(Clone, Copy, Debug)]
pub struct FlashSettings {
    /// A reservation is answered once Postgres has it, rather than once Redis has it.
    pub durable: bool,
    /// How many reservations of a sale may wait for Postgres.
    pub backlog: u32,
    /// How long one transaction or query may take in Postgres. Longer than a healthy one, also if it waits for rows.
    pub database_timeout: Duration,
}

/// The flash sales of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Flash(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    counter: Counter,
    durable: bool,
    database_timeout: Duration,
    /// The sales that are not closed, as Postgres had them a moment ago.
    sales: RwLock<HashMap<Sku, Unclosed>>,
    places: Semaphore,
    /// Places for requests about sales that this process does not know: they would wait behind a crowd that repeats its
    /// requests.
    looks: Semaphore,
    /// Why Redis refuses reservations.
    refusals: Mutex<Trouble>,
    waiters: Waiters,
    work: Notify,
}

/// A sale that is not closed, as far as this process knows.
#[derive(Clone, Copy, Debug)]
struct Unclosed {
    id: SaleId,
    is_open: bool,
    /// `None` if Redis told of the sale, and Postgres was not asked yet.
    ends_at: Option<OffsetDateTime>,
}

/// What a failover, or a restart from older data, has undone.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// Postgres does not have the sale.
    Sale,
    /// Redis does not know that it was closed.
    End,
}

impl Flash {
    /// Flash sales on the Redis of the locks. Each command to it may take `limit`.
    #[must_use]
    pub fn new(redis: &Redis, limit: Duration, settings: FlashSettings) -> Self {
        Self(Arc::new(Inner {
            counter: Counter::new(redis, limit, settings.backlog),
            durable: settings.durable,
            database_timeout: settings.database_timeout,
            sales: RwLock::default(),
            places: Semaphore::new(PLACES),
            looks: Semaphore::new(PLACES),
            refusals: Mutex::default(),
            waiters: Waiters::default(),
            work: Notify::new(),
        }))
    }

    pub(super) fn counter(&self) -> &Counter {
        &self.0.counter
    }

    pub(super) fn waiters(&self) -> &Waiters {
        &self.0.waiters
    }

    /// Waits for Postgres, which may fall silent without closing a connection.
    pub(super) async fn answered<T, E: From<sqlx::Error>>(
        &self,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        db::connect::answered(self.0.database_timeout, asked).await
    }

    /// Tells the keeper that there is something to do.
    pub(crate) fn nudge(&self) {
        self.0.work.notify_one();
    }

    pub(super) async fn nudged(&self) {
        self.0.work.notified().await;
    }

    /// Remembers which sales are not closed.
    pub(super) fn remember(&self, sales: &[Sale]) {
        let unclosed =
            |sale: &Sale| Unclosed { id: sale.id, is_open: sale.stage == Stage::Open, ends_at: Some(sale.ends_at) };
        let sales = sales.iter().map(|sale| (sale.sku.clone(), unclosed(sale))).collect();
        *self.0.sales.write() = sales;
    }

    /// Makes the counter of a sale that was just opened. If that fails, the keeper makes it later.
    pub(crate) async fn open(&self, pg: &PgPool, sale: &Sale) {
        self.note(&sale.sku, Unclosed { id: sale.id, is_open: true, ends_at: Some(sale.ends_at) });
        if let Err(error) = reconcile::settle(self, pg, sale).await {
            tracing::warn!(error = %chain(&error), sku = %sale.sku, "a sale has no counter yet");
        }
        self.nudge();
    }

    fn note(&self, sku: &Sku, sale: Unclosed) {
        self.0.sales.write().insert(sku.clone(), sale);
    }

    fn known(&self, sku: &Sku) -> Option<Unclosed> {
        self.0.sales.read().get(sku).copied()
    }

    /// Whether this process knows an open sale of the SKU.
    pub(crate) fn knows_open(&self, sku: &Sku) -> bool {
        let is_open = |sale: Unclosed| sale.is_open && sale.ends_at.is_none_or(|end| end > OffsetDateTime::now_utc());
        self.known(sku).is_some_and(is_open)
    }

    /// One of the few places for requests that ask Postgres. The wait ends with the request, whose time is limited
    /// (`trace::admit`).
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.0.places.acquire().await.ok()
    }

    /// Asks the script about the sale that this process knows. If another sale is the current one by now, it asks once
    /// more, about that sale.
    ///
    /// A sale is in Postgres before it is in Redis. If Postgres has lost it, nobody would store what it lets in. If
    /// Redis has lost its end, no keeper tends it any more.
    #[tracing::instrument(name = "flash.reserve", level = "debug", skip_all)]
    pub(crate) async fn reserve(&self, pg: &PgPool, sku: &Sku, asked: &Asked) -> Result<Answer, FlashError> {
        let known = self.known(sku);
        let mut answer = self.ask(sku, known.map_or(SaleId(0), |sale| sale.id), asked).await?;
        if let Answer::Other { current, is_closed } = answer {
            if known.is_some_and(|sale| sale.id > current) {
                // The counter of the sale that this process knows is yet to be made.
                self.nudge();
                return Ok(Answer::Unsettled);
            }
            // A closed sale lets nobody in, whatever Postgres has lost.
            let lost = if known.is_none() && !is_closed { self.lost(pg, sku, current).await } else { None };
            match lost {
                Some(Lost::Sale) => self.0.counter.close(sku, current).await.map(drop)?,
                Some(Lost::End) => self.0.counter.end(sku, current).await?,
                None => {}
            }
            if lost.is_some() {
                return Ok(Answer::Closed(current));
            }
            self.note(sku, Unclosed { id: current, is_open: !is_closed, ends_at: None });
            answer = self.ask(sku, current, asked).await?;
        }
        if matches!(answer, Answer::Reserved(_) | Answer::Unsettled | Answer::Other { .. }) {
            self.nudge();
        }
        Ok(answer)
    }

    async fn ask(&self, sku: &Sku, sale: SaleId, asked: &Asked) -> Result<Answer, FlashError> {
        self.0.counter.reserve(sku, sale, asked).await.inspect_err(|error| self.name(error))
    }

    /// Says in the log why Redis refuses reservations. The commands of the keeper need no memory, so it does not learn
    /// that Redis has none left. A value of another program is named by the keeper.
    fn name(&self, error: &FlashError) {
        if let FlashError::Counter(error @ LinkError::Refused(cause)) = error
            && cause.code() != Some("WRONGTYPE")
            && self.0.refusals.lock().is_news()
        {
            tracing::warn!(error = %chain(error), "Redis refuses reservations of flash sales");
        }
    }

    /// What Postgres or Redis has lost of the sale that is the current one in Redis, and open there. `None` also if
    /// Postgres does not answer.
    async fn lost(&self, pg: &PgPool, sku: &Sku, current: SaleId) -> Option<Lost> {
        let _place = self.0.looks.acquire().await;
        if self.known(sku).is_some_and(|sale| sale.id >= current) {
            // Another request has asked meanwhile.
            return None;
        }
        match db::flash_sale::newest(pg, sku).await.ok()? {
            Some(newest) if newest.id >= current && newest.stage == Stage::Closed => Some(Lost::End),
            Some(newest) if newest.id >= current => None,
            _ => Some(Lost::Sale),
        }
    }

    /// Whether an answer waits until Postgres has the reservation.
    pub(crate) fn is_durable(&self) -> bool {
        self.0.durable
    }

    /// Whether Postgres stored the reservation rather than rejected it; `None` when that is not known within `limit`.
    pub(crate) async fn stored(&self, reservation: &Made, limit: Duration) -> Option<bool> {
        self.0.waiters.wait(reservation, limit).await
    }

    /// How many units are left; `None` while the counter can't be used.
    pub(crate) async fn left(&self, sale: &Sale) -> Result<Option<i64>, LinkError> {
        self.0.counter.left(sale).await
    }

    /// The generation of the counter of this SKU.
    pub(crate) async fn generation(&self, sku: &Sku) -> Result<Option<i64>, LinkError> {
        self.0.counter.generation(sku).await
    }

    /// Units and customer of a reservation that was let in, as far as the counter knows.
    pub(crate) async fn find(&self, sku: &Sku, reservation: &str) -> Result<Option<(i64, String)>, LinkError> {
        let content = self.0.counter.find(sku, reservation).await?;
        Ok(content.and_then(|content| {
            let (quantity, customer) = content.split_once(':')?;
            Some((quantity.parse().ok()?, customer.to_owned()))
        }))
    }
}
