//! Replies of the scripts as types.

use std::time::Duration;

use redis::Value;

use crate::{
    redis::LinkError,
    store::{Inspection, Mode, Party, Token},
};

/// What a question found where the caller's place in the queue was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The place is there, or the caller never had one.
    Kept,
    Gone,
}

impl Place {
    fn read(word: &str) -> Option<Self> {
        match word {
            "0" => Some(Self::Kept),
            "1" => Some(Self::Gone),
            _ => None,
        }
    }
}

/// What an attempt was told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The resource was free; the lease began when the script ran.
    Free {
        token: Token,
    },
    /// Held, until server time `x`.
    Granted {
        token: Token,
        x: u64,
        now: u64,
        place: Place,
        /// Whether somebody waits.
        wanted: bool,
    },
    Queued {
        seq: u64,
        remaining: Duration,
        now: u64,
        /// From 1.
        position: u64,
        place: Place,
    },
    Busy {
        remaining: Duration,
        now: u64,
        /// Whether all who hold it give way, and were told to.
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
    /// Server time of the reply, which tells it only when it is more than a token.
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

    /// What became of the caller's place; `None` when the reply does not say.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            Self::Granted { place, .. } | Self::Queued { place, .. } => Some(*place),
            _ => None,
        }
    }

    pub(crate) fn read(value: &Value) -> Result<Self, LinkError> {
        let unexpected = LinkError::Protocol { op: "acquire" };
        let text = text(value).ok_or_else(|| unexpected.clone())?;
        let words: Vec<_> = text.split(' ').collect();
        let parsed = match words.as_slice() {
            [only] => token(only).map(|token| Self::Free { token }),
            ["GRANTED", of, x, now, place, wanted] => (|| {
                let (place, wanted) = (Place::read(place)?, flag(wanted)?);
                Some(Self::Granted { token: token(of)?, x: number(x)?, now: number(now)?, place, wanted })
            })(),
            ["QUEUED", seq, left, now, rank, place] => (|| {
                let (position, place) = (number(rank)?.checked_add(1)?, Place::read(place)?);
                Some(Self::Queued { seq: number(seq)?, remaining: micros(left)?, now: number(now)?, position, place })
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

/// What an attempt on several resources was told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// All are held, with these tokens.
    Held(Vec<Token>),
    /// One of them is not free, and nothing was changed.
    Taken {
        now: u64,
    },
    Stale {
        now: u64,
    },
}

impl Together {
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

/// What a release or a cancel found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Whether the owner held the resource or stood in its queue.
    pub(crate) found: bool,
    /// Whether more waiters are served by calling again.
    pub(crate) more: bool,
}

impl Left {
    pub(crate) fn read(value: &Value) -> Result<Self, LinkError> {
        match value {
            Value::Int(code) => Ok(Self { found: code % 10 != 0, more: *code >= 10 }),
            _ => Err(LinkError::Protocol { op: "release" }),
        }
    }
}

/// What one renewal of a batch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// `wanted`: somebody waits.
    Extended {
        now: u64,
        wanted: bool,
    },
    /// Still held, to its end and no longer.
    Ending {
        now: u64,
    },
    Gone {
        now: u64,
    },
}

impl Renewed {
    /// Of a RENEW of so many.
    pub(crate) fn read_all(value: &Value, expected: usize) -> Result<Vec<Self>, LinkError> {
        let read = || {
            let (now, found) = text(value)?.split_once(' ')?;
            let now = number(now)?;
            found.bytes().map(|code| Self::found(code, now)).collect::<Option<Vec<_>>>()
        };
        read().filter(|read| read.len() == expected).ok_or(LinkError::Protocol { op: "renew" })
    }

    fn found(code: u8, now: u64) -> Option<Self> {
        match code {
            b'1' => Some(Self::Extended { now, wanted: false }),
            b'3' => Some(Self::Extended { now, wanted: true }),
            b'2' => Some(Self::Ending { now }),
            b'0' => Some(Self::Gone { now }),
            _ => None,
        }
    }

    /// Of a DOWNGRADE.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let mut words = text(value)?.split(' ');
        let (code, now, wanted) = (words.next()?, number(words.next()?)?, words.next() == Some("1"));
        match code {
            "1" => Some(Self::Extended { now, wanted }),
            "2" => Some(Self::Ending { now }),
            "0" => Some(Self::Gone { now }),
            _ => None,
        }
    }

    pub(crate) fn now(self) -> u64 {
        match self {
            Self::Extended { now, .. } | Self::Ending { now } | Self::Gone { now } => now,
        }
    }
}

/// What an adoption found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    /// Held by the new owner, until server time `x`.
    Held {
        x: u64,
        now: u64,
    },
    Gone,
    Stale {
        now: u64,
    },
}

impl Adopted {
    pub(crate) fn read(value: &Value) -> Result<Self, LinkError> {
        let words: Vec<_> = text(value).unwrap_or_default().split(' ').collect();
        let adopted = match words.as_slice() {
            ["ADOPTED", x, now] => number(x).zip(number(now)).map(|(x, now)| Self::Held { x, now }),
            ["GONE", _] => Some(Self::Gone),
            ["STALE", now] => number(now).map(|now| Self::Stale { now }),
            _ => None,
        };
        adopted.ok_or(LinkError::Protocol { op: "adopt" })
    }
}

/// Server time of a JOIN, and since when the run has served.
pub(crate) fn joined(value: &Value) -> Result<(u64, u64), LinkError> {
    let read = || {
        let (now, since) = text(value)?.split_once(' ')?;
        number(now).zip(number(since))
    };
    read().ok_or(LinkError::Protocol { op: "join" })
}

/// The reply to TIME, in µs.
pub(crate) fn time(value: &Value) -> Result<u64, LinkError> {
    let read = || {
        let Value::Array(parts) = value else { return None };
        let [seconds, micros] = parts.as_slice() else { return None };
        number(text(seconds)?)?.checked_mul(1_000_000)?.checked_add(number(text(micros)?)?)
    };
    read().ok_or(LinkError::Protocol { op: "time" })
}

/// Holders and token of a FORCE.
pub(crate) fn forced(value: &Value) -> Result<(u64, Token), LinkError> {
    match value {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(holders), of] => {
                u64::try_from(*holders).ok().zip(text(of).and_then(token)).ok_or(LinkError::Protocol { op: "force" })
            }
            _ => Err(LinkError::Protocol { op: "force" }),
        },
        _ => Err(LinkError::Protocol { op: "force" }),
    }
}

pub(crate) fn inspection(value: &Value) -> Result<Inspection, LinkError> {
    read_inspection(value).ok_or(LinkError::Protocol { op: "inspect" })
}

fn read_inspection(value: &Value) -> Option<Inspection> {
    let Value::Array(parts) = value else { return None };
    let [now, state, Value::Array(shared), Value::Array(waiters), Value::Int(waiting)] = parts.as_slice() else {
        return None;
    };
    let now = number(text(now)?)?;
    let left = |x: &str| Some(Duration::from_micros(number(x)?.saturating_sub(now)));
    let since = |at: u64| Duration::from_micros(now.saturating_sub(at));
    // A token is the time of the grant, unless the floor ran ahead of the clock; the grant came before the last renewal.
    let age = |of: &str, x: &str, len: &str| {
        let renewed = number(x)?.saturating_sub(number(len)?);
        Some(Some(since(number(of)?.min(renewed))))
    };
    let mut holders = Vec::new();
    if let Some(state) = text(state)?.strip_prefix("w ") {
        // `queue unconfirmed owner token x len tag`
        let [_, _, _, of, x, len, tag] = fields(state)?;
        let (age, remaining) = (age(of, x, len)?, left(x)?);
        holders.push(Party {
            mode: Mode::Write,
            tag: tag.to_owned(),
            token: token(of),
            age,
            remaining,
            position: None,
        });
    } else if let Some(mode @ (Mode::Read | Mode::Permit)) = mode(text(state)?) {
        // `queue first at`, and the capacity of a semaphore
        let [_, _, first, at] = fields(text(state)?)?;
        number(first).zip(number(at.split(' ').next()?))?;
        for shared in shared {
            // `x token unconfirmed lease yield tag`
            let [x, of, _, len, _, tag] = fields(text(shared)?)?;
            let (age, remaining) = (age(of, x, len)?, left(x)?);
            holders.push(Party { mode, tag: tag.to_owned(), token: token(of), age, remaining, position: None });
        }
    } else if !matches!(text(state)?, "" | "n 1") {
        return None;
    }
    // A lease that is over is not held, although no script has noticed yet.
    holders.retain(|party| !party.remaining.is_zero());
    let mut queue = Vec::new();
    for (waiter, position) in waiters.iter().zip(1..) {
        // `place mode deadline lease yield tag`
        let [place, wants, deadline, _, _, tag] = fields(text(waiter)?)?;
        let (age, remaining) = (Some(since(number(place)?)), left(deadline)?);
        queue.push(Party {
            mode: mode(wants)?,
            tag: tag.to_owned(),
            token: None,
            age,
            remaining,
            position: Some(position),
        });
    }
    Some(Inspection { holders, waiters: queue, waiting: u64::try_from(*waiting).ok()? })
}

/// The mode that a state or a waiter's record begins with; a free resource has none.
fn mode(text: &str) -> Option<Mode> {
    match text.bytes().next()? {
        b'w' => Some(Mode::Write),
        b'r' => Some(Mode::Read),
        b's' => Some(Mode::Permit),
        _ => None,
    }
}

/// The words of a record; the last, the tag, may be empty or hold spaces.
fn fields<const N: usize>(record: &str) -> Option<[&str; N]> {
    let mut words = record.splitn(N, ' ');
    let mut fields = [""; N];
    for field in &mut fields {
        *field = words.next()?;
    }
    Some(fields)
}

fn flag(word: &str) -> Option<bool> {
    match word {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

pub(crate) fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

pub(crate) fn token(text: &str) -> Option<Token> {
    Token::new(number(text)?)
}

fn micros(text: &str) -> Option<Duration> {
    number(text).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquired(text: &str) -> Result<Acquired, LinkError> {
        Acquired::read(&Value::BulkString(text.into()))
    }

    #[test]
    fn replies_that_no_script_gives_are_errors() {
        assert_eq!(
            acquired("1763668800000000").unwrap(),
            Acquired::Free { token: Token::new(1_763_668_800_000_000).unwrap() }
        );
        for odd in ["", "x", "1.7636688e+15", "9007199254740992", "GRANTED 1 2", "QUEUED 1 2 3", "STALE", "-1"] {
            assert!(acquired(odd).is_err(), "{odd}");
        }
        assert!(Acquired::read(&Value::Nil).is_err());
        let together = |text: &str| Together::read(&Value::BulkString(text.into()), 2);
        assert!(matches!(together("HELD 1 2"), Ok(Together::Held(tokens)) if tokens.len() == 2));
        for odd in ["", "HELD", "HELD 1", "HELD 1 2 3", "HELD 1 x", "TAKEN", "STALE 1e15", "QUEUED 1"] {
            assert!(together(odd).is_err(), "{odd}");
        }
        assert!(Renewed::read_all(&Value::Array(vec![]), 1).is_err());
    }
}
