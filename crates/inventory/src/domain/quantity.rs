use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, OneOfBuilder, RefOr, Schema, Type},
};

/// The number of units on hand: 0 to 1,000,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[schema(minimum = 0, maximum = 1_000_000_000, example = 12)]
pub struct Quantity(i64);

/// A change of a quantity: not zero, at most 1,000,000,000 either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Delta(pub(super) i64);

/// A number that is no quantity, no delta, or no number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} is not {expected}")]
pub struct QuantityError {
    pub(super) given: i64,
    pub(super) expected: &'static str,
}

/// Why a delta can't be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Fewer units on hand than asked for.
    #[error("fewer on hand than asked for")]
    Insufficient,
    /// More than a quantity may be.
    #[error("the quantity would be over {max}", max = Quantity::MAX)]
    TooLarge,
}

const A_QUANTITY: &str = "an integer from 0 to 1000000000";
const A_DELTA: &str = "an integer from -1000000000 to 1000000000 other than 0";

impl Quantity {
    /// The largest quantity.
    pub const MAX: i64 = 1_000_000_000;

    /// No units on hand.
    pub const ZERO: Self = Self(0);

    /// Checks `value`.
    ///
    /// # Errors
    ///
    /// [`QuantityError`] outside 0 to [`Quantity::MAX`].
    pub fn new(value: i64) -> Result<Self, QuantityError> {
        if !(0..=Self::MAX).contains(&value) {
            return Err(QuantityError { given: value, expected: A_QUANTITY });
        }
        Ok(Self(value))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }

    /// The quantity after `delta`.
    ///
    /// # Errors
    ///
    /// [`ApplyError`]; a quantity is never negative.
    pub fn apply(self, delta: Delta) -> Result<Self, ApplyError> {
        // Both lie within ±MAX, so the sum can't overflow.
        match self.0 + delta.0 {
            sum if sum < 0 => Err(ApplyError::Insufficient),
            sum if sum > Self::MAX => Err(ApplyError::TooLarge),
            sum => Ok(Self(sum)),
        }
    }

    /// The change from `old` to this quantity; `None` if they are equal.
    #[must_use]
    pub fn since(self, old: Self) -> Option<Delta> {
        (self != old).then_some(Delta(self.0 - old.0))
    }
}

impl Delta {
    /// Checks `value`.
    ///
    /// # Errors
    ///
    /// [`QuantityError`] for 0 and beyond ±[`Quantity::MAX`].
    pub fn new(value: i64) -> Result<Self, QuantityError> {
        if value == 0 || !(-Quantity::MAX..=Quantity::MAX).contains(&value) {
            return Err(QuantityError { given: value, expected: A_DELTA });
        }
        Ok(Self(value))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl PartialSchema for Delta {
    /// Two ranges, because zero is no change.
    fn schema() -> RefOr<Schema> {
        let range = |from: i64, to: i64| {
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(from)).maximum(Some(to)).build()
        };
        OneOfBuilder::new()
            .item(range(-Quantity::MAX, -1))
            .item(range(1, Quantity::MAX))
            .description(Some("A change of a quantity: not zero, at most 1,000,000,000 either way."))
            .examples([-6])
            .into()
    }
}

impl ToSchema for Delta {}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_i64(Integer(A_QUANTITY))?;
        Self::new(value).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Delta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_i64(Integer(A_DELTA))?;
        Self::new(value).map_err(de::Error::custom)
    }
}

/// Takes integers only. Its error says in plain words what is expected.
pub(super) struct Integer(pub(super) &'static str);

impl de::Visitor<'_> for Integer {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<i64, E> {
        Ok(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<i64, E> {
        i64::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_never_goes_below_zero_or_over_the_limit() {
        let delta = |value| Delta::new(value).unwrap();
        let quantity = |value| Quantity::new(value).unwrap();
        assert_eq!(quantity(3).apply(delta(-3)), Ok(Quantity::ZERO));
        assert_eq!(quantity(3).apply(delta(-4)), Err(ApplyError::Insufficient));
        assert_eq!(quantity(Quantity::MAX).apply(delta(1)), Err(ApplyError::TooLarge));
        assert_eq!(Quantity::ZERO.apply(delta(Quantity::MAX)), Ok(quantity(Quantity::MAX)));
    }

    #[test]
    fn numbers_outside_the_limits_are_refused() {
        for value in [-1, 1_000_000_001, i64::MIN, i64::MAX] {
            assert!(Quantity::new(value).is_err(), "{value}");
        }
        for value in [0, 1_000_000_001, -1_000_000_001, i64::MIN] {
            assert!(Delta::new(value).is_err(), "{value}");
        }
    }

    #[test]
    fn the_difference_to_the_same_quantity_is_no_movement() {
        let five = Quantity::new(5).unwrap();
        assert_eq!(five.since(five), None);
        assert_eq!(Quantity::ZERO.since(five), Some(Delta(-5)));
    }
}
