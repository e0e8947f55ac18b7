use std::time::Duration;

use redis::Value;

use super::words::{flag, micros, number, token};
use crate::{
    redis::{LinkError, text},
    store::Token,
};

/// The reply to an acquire command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The resource was free; the lease began when the script ran.
    Free {
        token: Token,
    },
    /// The attempt holds the resource until server time `x`.
    Granted {
        token: Token,
        x: u64,
        now: u64,
        /// Whether the caller had a place in the queue, and the server had it no more.
        gone: bool,
        /// Whether somebody waits.
        wanted: bool,
    },
    Queued {
        seq: u64,
        remaining: Duration,
        now: u64,
        /// From 1.
        position: u64,
        /// As in a grant.
        gone: bool,
    },
    Busy {
        remaining: Duration,
        now: u64,
        /// Whether all holders yield, and were told that somebody waits.
        yields: bool,
    },
    Full {
        waiters: u64,
        remaining: Duration,
        now: u64,
    },
    Stale {
        now: u64,
    },
    /// The semaphore is in use with another capacity.
    Capacity {
        present: u32,
        now: u64,
    },
}

impl Acquired {
    /// The server time of the reply. A reply that is only a token does not say it.
    pub(crate) fn now(&self) -> Option<u64> {
        match self {
            Self::Free { .. } => None,
            Self::Granted { now, .. }
            | Self::Queued { now, .. }
            | Self::Busy { now, .. }
            | Self::Full { now, .. }
            | Self::Stale { now }
            | Self::Capacity { now, .. } => Some(*now),
        }
    }

    pub(crate) fn lost_its_place(&self) -> bool {
        matches!(self, Self::Granted { gone: true, .. } | Self::Queued { gone: true, .. })
    }

    pub(crate) fn read(value: &Value) -> Result<Self, LinkError> {
        let unexpected = LinkError::Protocol { op: "acquire" };
        let text = text(value).ok_or_else(|| unexpected.clone())?;
        let words: Vec<_> = text.split(' ').collect();
        let parsed = match words.as_slice() {
            [only] => token(only).map(|token| Self::Free { token }),
            ["GRANTED", of, x, now, place, wanted] => (|| {
                let (gone, wanted) = (flag(place)?, flag(wanted)?);
                Some(Self::Granted { token: token(of)?, x: number(x)?, now: number(now)?, gone, wanted })
            })(),
            ["QUEUED", seq, left, now, rank, place] => (|| {
                let (position, gone) = (number(rank)?.checked_add(1)?, flag(place)?);
                Some(Self::Queued { seq: number(seq)?, remaining: micros(left)?, now: number(now)?, position, gone })
            })(),
            ["BUSY", left, _, now, yields] => {
                (|| Some(Self::Busy { remaining: micros(left)?, now: number(now)?, yields: flag(yields)? }))()
            }
            ["FULL", left, length, now] => {
                (|| Some(Self::Full { waiters: number(length)?, remaining: micros(left)?, now: number(now)? }))()
            }
            ["CAPACITY", present, now] => {
                (|| Some(Self::Capacity { present: present.parse().ok()?, now: number(now)? }))()
            }
            ["STALE", now] => number(now).map(|now| Self::Stale { now }),
            _ => None,
        };
        parsed.ok_or(unexpected)
    }
}

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
        let acquired = |text: &str| Acquired::read(&Value::BulkString(text.into()));
        let token = Token::new(1_763_668_800_000_000).unwrap();
        assert_eq!(acquired("1763668800000000").unwrap(), Acquired::Free { token });
        for odd in ["", "x", "1.7636688e+15", "9007199254740992", "GRANTED 1 2", "QUEUED 1 2 3", "STALE", "-1"] {
            assert!(acquired(odd).is_err(), "{odd}");
        }
        assert!(Acquired::read(&Value::Nil).is_err());
        let multi = |text: &str| Multi::read(&Value::BulkString(text.into()), 2);
        assert!(matches!(multi("HELD 1 2"), Ok(Multi::Held(tokens)) if tokens.len() == 2));
        for odd in ["", "HELD", "HELD 1", "HELD 1 2 3", "HELD 1 x", "TAKEN", "STALE 1e15", "QUEUED 1"] {
            assert!(multi(odd).is_err(), "{odd}");
        }
    }
}
