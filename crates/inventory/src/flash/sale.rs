use std::fmt;

use time::OffsetDateTime;

use crate::domain::Sku;

/// The id of a sale. It is never given twice, so no part of an earlier sale of a SKU is taken for a part of this one.
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
    /// The id.
    pub id: SaleId,
    /// The SKU.
    pub sku: Sku,
    /// Units that were taken out of stock for it.
    pub opened: i64,
    /// Units that one customer gets at most.
    pub per_customer: i64,
    /// The time from which nothing is reserved.
    pub ends_at: OffsetDateTime,
    /// How many counters this sale has had. A reservation made under an earlier counter is not stored any more.
    pub generation: i64,
    /// Units of the reservations that are stored.
    pub stored: i64,
    /// The stage of the sale.
    pub stage: Stage,
}

/// The stage of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its counter lets reservations in, or is about to.
    Open,
    /// Nothing is let in; what was reserved is still being stored.
    Closing,
    /// Unsold units are back in stock.
    Closed,
}

impl Sale {
    /// Units that are not stored as sold. In a closed sale they are back in stock.
    #[must_use]
    pub fn unsold(&self) -> i64 {
        self.opened - self.stored
    }

    /// When it ends, in milliseconds since 1970.
    pub(super) fn ends_ms(&self) -> i128 {
        self.ends_at.unix_timestamp_nanos() / 1_000_000
    }
}
