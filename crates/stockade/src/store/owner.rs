use std::{fmt, sync::Arc};

/// The id of an owner: a process part and a counter, 28 characters, unique per attempt. It is a bearer secret of this
/// process.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    pub(crate) fn new(text: String) -> Self {
        Self(text.into())
    }

    /// The number is written to the base of 32: a million attempts a second fill its 11 digits in a thousand years.
    pub(crate) fn of(process: &str, number: u64) -> Self {
        const DIGITS: usize = 11;
        let mut text = String::with_capacity(process.len() + 1 + DIGITS);
        text.push_str(process);
        text.push('.');
        let values = (0..DIGITS).rev().map(|place| (number >> (5 * place)).to_le_bytes()[0] % 32);
        text.extend(values.filter_map(|value| char::from_digit(value.into(), 32)));
        Self::new(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The process part stays out of logs; the counter is enough to follow an attempt.
        let counter = self.0.rsplit('.').next().unwrap_or_default();
        write!(f, "Owner(….{counter})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_the_same_length_and_an_owner_of_its_own() {
        let numbers = [0, 1, 31, 32, 99_999_999_999, 100_000_000_000, (1 << 55) - 1];
        let owners = numbers.map(|number| Owner::of("0123456789abcdef", number).as_str().to_owned());
        assert!(owners.iter().all(|owner| owner.len() == 28), "{owners:?}");
        assert!(owners.is_sorted_by(|one, other| one < other), "{owners:?}");
        assert_eq!(owners[3], "0123456789abcdef.00000000010");
    }
}
