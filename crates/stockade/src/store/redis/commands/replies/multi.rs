use redis::Value;

use super::words::{number, text, token};
use crate::{redis::LinkError, store::Token};

/// The reply to an attempt on several resources.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Multi {
    /// The attempt holds all of them, with these tokens.
    Held(Vec<Token>),
    /// One of the resources is not free, and nothing was changed.
    Taken {
        now: u64,
    },
    Stale {
        now: u64,
    },
}

impl Multi {
    pub(crate) fn read(value: &Value, expected: usize) -> Result<Self, LinkError> {
        let unexpected = LinkError::Protocol { op: "multi" };
        let (word, rest) = text(value).and_then(|text| text.split_once(' ')).ok_or_else(|| unexpected.clone())?;
        let parsed = match word {
            "HELD" => rest.split(' ').map(token).collect::<Option<Vec<_>>>().map(Self::Held),
            "TAKEN" => number(rest).map(|now| Self::Taken { now }),
            "STALE" => number(rest).map(|now| Self::Stale { now }),
            _ => None,
        };
        let counted = |parsed: &Self| if let Self::Held(tokens) = parsed { tokens.len() == expected } else { true };
        parsed.filter(counted).ok_or(unexpected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_no_script_gives_are_errors() {
        let multi = |text: &str| Multi::read(&Value::BulkString(text.into()), 2);
        assert!(matches!(multi("HELD 1 2"), Ok(Multi::Held(tokens)) if tokens.len() == 2));
        for odd in ["", "HELD", "HELD 1", "HELD 1 2 3", "HELD 1 x", "TAKEN", "STALE 1e15", "QUEUED 1"] {
            assert!(multi(odd).is_err(), "{odd}");
        }
    }
}
