use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::text::{TextError, checked};

/// The cause of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The quantity was set to a number.
    Set,
    /// The quantity was changed by a number.
    Adjustment,
    /// The SKU was removed.
    Delete,
    /// Units went from one SKU to another: two movements, one of each SKU.
    Transfer,
    /// Units went into a flash sale, or came back from it.
    Flash,
}

impl Kind {
    /// The text stored in the ledger, which is also the metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Adjustment => "adjustment",
            Self::Delete => "delete",
            Self::Transfer => "transfer",
            Self::Flash => "flash",
        }
    }
}

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Movement {
    /// Grows with every movement of its SKU.
    pub id: i64,
    /// `seed`, `set`, `adjustment`, `delete`, `transfer` or `flash`.
    pub kind: String,
    /// The change of the quantity.
    pub delta: i64,
    /// The quantity on hand afterwards.
    pub quantity: i64,
    /// The version of the stock afterwards.
    pub version: i64,
    /// The reference that the client gave.
    #[schema(required)]
    pub reference: Option<String>,
    /// The fencing token that it was written under.
    #[schema(required)]
    pub fencing_token: Option<i64>,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime, example = "2026-05-04T09:30:00Z")]
    pub created_at: OffsetDateTime,
}

/// The purpose of a movement, as the client says it: 1 to 200 characters, none of them a control character.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$", example = "536365#1")]
pub struct Reference(String);

impl TryFrom<String> for Reference {
    type Error = TextError;

    fn try_from(text: String) -> Result<Self, TextError> {
        checked("reference", text, 200).map(Self)
    }
}

impl Reference {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
