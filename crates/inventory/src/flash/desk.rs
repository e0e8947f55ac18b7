use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use parking_lot::RwLock;
use sqlx::PgPool;
use stockade::Redis;
use tokio::sync::Notify;

use super::{Answer, Asked, FlashError, Made, Sale, SaleId, counter::Counter, reconcile, waiters::Waiters};
use crate::{db, domain::Sku};

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
    sales: RwLock<HashMap<Sku, SaleId>>,
    waiters: Waiters,
    work: Notify,
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
        let sales = sales.iter().map(|sale| (sale.sku.clone(), sale.id)).collect();
        *self.0.sales.write() = sales;
    }

    /// Makes the counter of a sale that was just opened. If that fails, the keeper makes it later.
    pub(crate) async fn open(&self, pg: &PgPool, sale: &Sale) {
        self.note(&sale.sku, sale.id);
        if let Err(error) = reconcile::settle(self, pg, sale).await {
            tracing::warn!(error = &error as &dyn std::error::Error, sku = %sale.sku, "a sale has no counter yet");
        }
        self.nudge();
    }

    fn note(&self, sku: &Sku, sale: SaleId) {
        self.0.sales.write().insert(sku.clone(), sale);
    }

    /// Asks the script about the sale that this process knows. If another sale is the current one by now, it asks once
    /// more, about that sale.
    ///
    /// A sale is in Postgres before it is in Redis. If Postgres has lost it, nobody would store what it lets in.
    #[tracing::instrument(name = "flash.reserve", level = "debug", skip_all)]
    pub(crate) async fn reserve(&self, pg: &PgPool, sku: &Sku, asked: &Asked) -> Result<Answer, FlashError> {
        let known = self.0.sales.read().get(sku).copied();
        let mut answer = self.0.counter.reserve(sku, known.unwrap_or(SaleId(0)), asked).await?;
        if let Answer::Other(current) = answer {
            if known.is_none()
                && let Ok(newest) = db::flash_sale::newest(pg, sku).await
                && newest.is_none_or(|newest| newest.id < current)
            {
                self.0.counter.close(sku, current).await?;
                return Ok(Answer::Closed);
            }
            self.note(sku, current);
            answer = self.0.counter.reserve(sku, current, asked).await?;
        }
        if matches!(answer, Answer::Reserved(_) | Answer::Unsettled | Answer::Other(_)) {
            self.nudge();
        }
        Ok(answer)
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
    pub(crate) async fn left(&self, sale: &Sale) -> Result<Option<i64>, FlashError> {
        Ok(self.0.counter.left(sale).await?)
    }

    /// Units and customer of a reservation that was let in, as far as the counter knows.
    pub(crate) async fn find(&self, sku: &Sku, reservation: &str) -> Result<Option<(i64, String)>, FlashError> {
        let content = self.0.counter.find(sku, reservation).await?;
        Ok(content.and_then(|content| {
            let (quantity, customer) = content.split_once(':')?;
            Some((quantity.parse().ok()?, customer.to_owned()))
        }))
    }
}
