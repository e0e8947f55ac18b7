use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{Quantity, Sku};

/// The stock of one SKU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stock {
    /// The SKU.
    pub sku: Sku,
    /// The quantity on hand.
    pub quantity: Quantity,
    /// Differs after every change, and never returns for this SKU.
    pub version: u64,
    /// When it last changed.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime, example = "2026-05-04T09:30:00Z")]
    pub updated_at: OffsetDateTime,
}
