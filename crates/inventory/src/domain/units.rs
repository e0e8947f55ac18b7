use serde::{Deserialize, Deserializer, de};
use utoipa::ToSchema;

use super::{Delta, Quantity, QuantityError, quantity::Integer};

const UNITS: &str = "an integer from 1 to 1000000000";

/// The number of units that move from one place to another: from 1 to [`Quantity::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(minimum = 1, maximum = 1_000_000_000, example = 6)]
pub struct Units(i64);

impl Units {
    /// Checks `value`.
    ///
    /// # Errors
    ///
    /// [`QuantityError`].
    pub fn new(value: i64) -> Result<Self, QuantityError> {
        if (1..=Quantity::MAX).contains(&value) {
            Ok(Self(value))
        } else {
            Err(QuantityError { given: value, expected: UNITS })
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }

    /// The change of the place that the units leave.
    #[must_use]
    pub fn taken(self) -> Delta {
        Delta(-self.0)
    }

    /// The change of the place that the units reach.
    #[must_use]
    pub fn added(self) -> Delta {
        Delta(self.0)
    }
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_i64(Integer(UNITS))?;
        Self::new(value).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_here_is_added_there() {
        for value in [1, Quantity::MAX] {
            let units = Units::new(value).unwrap();
            assert_eq!((units.taken(), units.added()), (Delta::new(-value).unwrap(), Delta::new(value).unwrap()));
        }
    }

    #[test]
    fn nothing_and_less_are_no_units() {
        for value in [0, -1, Quantity::MAX + 1, i64::MIN] {
            assert!(Units::new(value).is_err(), "{value}");
        }
    }
}
