use sha2::{Digest, Sha256};

use super::SaleId;
use crate::domain::{Customer, Units};

/// The reservation that a client asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The customer.
    pub customer: Customer,
    /// The units.
    pub quantity: Units,
    /// The last part of the reservation's id. The first is the id of the sale.
    pub name: Name,
}

impl Asked {
    /// The text that the counter keeps: units and customer.
    pub(super) fn content(&self) -> String {
        format!("{}:{}", self.quantity.get(), self.customer.as_str())
    }
}

/// The part of a reservation's id that does not depend on the sale: the same for each repetition of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// The name for a request with this Idempotency-Key.
    #[must_use]
    pub fn of_key(key: &str) -> Self {
        Self(format!("{:.32x}", Sha256::digest(key.as_bytes())))
    }

    /// The name for a request that is sent once.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole id.
    #[must_use]
    pub fn within(&self, sale: SaleId) -> String {
        format!("{sale}-{}", self.0)
    }
}

/// The sale that a reservation's id names.
#[must_use]
pub fn sale_of(reservation: &str) -> Option<SaleId> {
    let (sale, _) = reservation.split_once('-')?;
    sale.parse().ok().map(SaleId)
}

/// A reservation on its way from the stream to Postgres.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The id, which is never given twice.
    pub id: String,
    /// The sale.
    pub sale: SaleId,
    /// The generation of the counter that let it in.
    pub generation: i64,
    /// The customer.
    pub customer: String,
    /// The units.
    pub quantity: i64,
}

/// A reservation that the counter has let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) id: String,
    /// The generation of the counter that let it in.
    pub(crate) generation: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_first_half_of_the_hash_of_the_key_in_hex() {
        assert_eq!(Name::of_key("test").as_str(), "9f86d081884c7d659a2feaa0c55ad015");
        assert_eq!(Name::random().as_str().len(), 32);
    }
}
