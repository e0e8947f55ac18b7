use std::fmt;

use time::OffsetDateTime;

use crate::domain::Sku;

/// Names one sale: never given twice, so that nothing of an earlier sale of a SKU can be taken for a part of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SaleId(pub i64);

impl fmt::Display for SaleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A sale as Postgres has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sale {
    /// Which one.
    pub id: SaleId,
    /// Of what.
    pub sku: Sku,
    /// Units that were taken out of stock for it.
    pub opened: i64,
    /// Units that one customer gets at most.
    pub per_customer: i64,
    /// From then on nothing is reserved.
    pub ends_at: OffsetDateTime,
    /// How many counters this sale has had. A reservation made under an earlier counter is not stored any more.
    pub generation: i64,
    /// Units of the reservations that are stored.
    pub stored: i64,
    /// How far it is.
    pub stage: Stage,
}

/// How far a sale is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its counter lets reservations in, or is about to.
    Open,
    /// Nothing is let in; what was reserved is still being stored.
    Closing,
    /// The unsold units are back in stock.
    Closed,
}

impl Sale {
    /// Units that are neither stored nor, in a closed sale, anybody's.
    #[must_use]
    pub fn unsold(&self) -> i64 {
        self.opened - self.stored
    }

    /// When it ends, in milliseconds since 1970.
    pub(super) fn ends_ms(&self) -> i128 {
        self.ends_at.unix_timestamp_nanos() / 1_000_000
    }
}
