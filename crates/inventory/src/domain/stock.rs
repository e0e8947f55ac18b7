use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Quantity, Sku};

/// What is on hand of one SKU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    /// Which one.
    pub sku: Sku,
    /// How many.
    pub quantity: Quantity,
    /// Differs after every change, and never returns for this SKU.
    pub version: u64,
    /// When it last changed.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}
