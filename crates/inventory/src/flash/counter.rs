use std::time::Duration;

use deadpool_redis::redis::{FromRedisValue, Value, cmd};
use stockade::Redis;

use super::{
    Asked, FlashError, Made, Sale, SaleId,
    answer::Answer,
    keys::Keys,
    link::{Link, LinkError},
    script::{CLOSE, ENTER, INSTALL, LOAD, RESERVE, SETTLE, VIEW},
    stream,
};
use crate::{domain::Sku, traces};

/// The counters of all sales, in Redis.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) link: Link,
    /// How many entries of a sale may wait for Postgres.
    backlog: u32,
}

/// Whether a counter can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The counter can be used.
    Valid,
    /// The caller has to make the counter now. The last one had this generation.
    Entered(i64),
    /// Entries are left in the stream, and must be stored before the counter can be made.
    Draining,
    /// Somebody else makes the counter.
    Busy,
    /// There is a later counter than the caller knows, with this generation.
    Replaced(i64),
    /// The sale was closed here.
    Closed,
    /// A later sale was opened here.
    Later(SaleId),
    /// A later counter was made on another server.
    Superseded,
}

impl Counter {
    pub(super) fn new(redis: &Redis, limit: Duration, backlog: u32) -> Self {
        Self { link: Link::new(redis, limit), backlog }
    }

    /// Reserves, if the current sale of the SKU is this one.
    pub(super) async fn reserve(&self, sku: &Sku, sale: SaleId, asked: &Asked) -> Result<Answer, FlashError> {
        let keys = Keys::of(sku);
        let (number, quantity, backlog) =
            (sale.to_string(), asked.quantity.get().to_string(), self.backlog.to_string());
        let trace = traces::traceparent().unwrap_or_default();
        let args = [number.as_str(), asked.name.as_str(), asked.customer.as_str(), &quantity, &backlog, &trace];
        let said: Vec<String> = self.link.run(&RESERVE, &keys.all(), &args).await?;
        match said.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["reserved", id, generation] => Ok(Answer::Reserved(made(id, generation))),
            ["known", _, _, content] if *content != asked.content() => Err(FlashError::Mismatch),
            ["known", id, generation, _] => Ok(Answer::Known(made(id, generation))),
            ["ended"] => Ok(Answer::Ended),
            ["closed"] => Ok(Answer::Closed(sale)),
            ["stored"] => Ok(Answer::Stored(sale)),
            ["sold-out"] => Err(FlashError::SoldOut),
            ["limit-reached"] => Err(FlashError::LimitReached),
            ["shed"] => Err(FlashError::Backlog),
            ["other", id, state] => Ok(id
                .parse()
                .map_or(Answer::Unsettled, |id| Answer::Other { current: SaleId(id), is_closed: *state == "closed" })),
            _ => Ok(Answer::Unsettled),
        }
    }

    /// Asks whether the counter can be used. After [`Entry::Entered`] the caller with `nonce` may make it. A counter of
    /// the generation `lost`, which Postgres does not know any more, can't be used.
    pub(super) async fn enter(&self, sale: &Sale, nonce: &str, lost: Option<i64>) -> Result<Entry, LinkError> {
        let (id, generation) = (sale.id.to_string(), sale.generation.to_string());
        let lost = lost.map(|lost| lost.to_string()).unwrap_or_default();
        let args = [id.as_str(), &generation, nonce, &lost];
        let said: Vec<String> = self.link.run(&ENTER, &Keys::of(&sale.sku).all(), &args).await?;
        Ok(match said.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["valid"] => Entry::Valid,
            ["entered", last] => last.parse().map_or(Entry::Busy, Entry::Entered),
            ["draining"] => Entry::Draining,
            ["replaced", generation] => generation.parse().map_or(Entry::Busy, Entry::Replaced),
            ["closed"] => Entry::Closed,
            ["later", id] => id.parse().map_or(Entry::Busy, |id| Entry::Later(SaleId(id))),
            ["superseded"] => Entry::Superseded,
            _ => Entry::Busy,
        })
    }

    /// Adds rows to a table of a counter that is being made: units of customers, or known reservations. False if
    /// somebody else makes it.
    pub(super) async fn load(
        &self,
        sku: &Sku,
        nonce: &str,
        table: fn(&Keys) -> &str,
        rows: &[(String, String)],
    ) -> Result<bool, LinkError> {
        let keys = Keys::of(sku);
        let words = rows.iter().flat_map(|(name, value)| [name.as_str(), value]);
        let args: Vec<&str> = [nonce].into_iter().chain(words).collect();
        Ok(self.link.run::<i64>(&LOAD, &[&keys.sale, table(&keys)], &args).await? == 1)
    }

    /// Opens the counter that was made of `sale`. False if somebody else makes it, or the server has changed.
    pub(super) async fn install(&self, sale: &Sale, nonce: &str) -> Result<bool, LinkError> {
        let keys = Keys::of(&sale.sku);
        let numbers = [i128::from(sale.generation), sale.unsold().into(), sale.per_customer.into(), sale.ends_ms()];
        let numbers = numbers.map(|number| number.to_string());
        let args: Vec<&str> = [nonce].into_iter().chain(numbers.iter().map(String::as_str)).collect();
        Ok(self.link.run::<i64>(&INSTALL, &[&keys.sale], &args).await? == 1)
    }

    /// Lets nothing into the sale any more, and drops its data once Postgres has all entries. Returns how many wait for
    /// Postgres.
    pub(super) async fn close(&self, sku: &Sku, sale: SaleId) -> Result<i64, LinkError> {
        self.link.run(&CLOSE, &Keys::of(sku).all(), &[&sale.to_string(), ""]).await
    }

    /// Closes a sale that Postgres has closed, and drops its data.
    pub(super) async fn end(&self, sku: &Sku, sale: SaleId) -> Result<(), LinkError> {
        self.link.run::<i64>(&CLOSE, &Keys::of(sku).all(), &[&sale.to_string(), "over"]).await.map(drop)
    }

    /// Removes entries that Postgres has. Returns how many are left.
    pub(super) async fn settle(&self, sku: &Sku, entries: &[&stream::Entry]) -> Result<i64, LinkError> {
        let args: Vec<&[u8]> = entries.iter().flat_map(|entry| [entry.id.as_bytes(), &entry.words]).collect();
        self.link.run(&SETTLE, &[&Keys::of(sku).stream], &args).await
    }

    /// How many units are left; `None` while the counter can't be used.
    pub(super) async fn left(&self, sale: &Sale) -> Result<Option<i64>, LinkError> {
        let said: Value = self.link.run(&VIEW, &[&Keys::of(&sale.sku).sale], &[&sale.id.to_string()]).await?;
        match said {
            Value::Nil | Value::Boolean(false) => Ok(None),
            left => i64::from_redis_value(left).map(Some).map_err(|error| LinkError::Unreadable(error.into())),
        }
    }

    pub(super) async fn generation(&self, sku: &Sku) -> Result<Option<i64>, LinkError> {
        let mut command = cmd("HGET");
        command.arg(Keys::of(sku).sale).arg("generation");
        self.link.command(&command).await
    }

    /// Units and customer of a reservation, as `UNITS:CUSTOMER`; `None` if the counter does not know the reservation.
    pub(super) async fn find(&self, sku: &Sku, reservation: &str) -> Result<Option<String>, LinkError> {
        let mut command = cmd("HGET");
        command.arg(Keys::of(sku).reservations).arg(reservation);
        self.link.command(&command).await
    }
}

/// The script answers the generation 0 if the counter has none, as that of a sale that was closed on an empty Redis.
fn made(id: &str, generation: &str) -> Made {
    Made { id: id.to_owned(), generation: generation.parse().unwrap_or_default() }
}
