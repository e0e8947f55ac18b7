//! Replies of the scripts as types.

use std::time::Duration;

use redis::Value;

use crate::{
    redis::{LinkError, text},
    store::redis::parts::number,
};

/// One server's reply to a request for the lock, or to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The server stores the value, and wrote the token to the floor.
    Fenced { now: u64 },
    /// The server stores the value, but refused the token because it is not above this floor.
    Below { floor: u64, now: u64 },
    /// The server stores another value for this long. `None`: that value never expires.
    Busy { left: Option<Duration>, now: u64 },
    /// The server no longer stores the value.
    Gone { now: u64 },
    /// The command arrived too late.
    Stale { now: u64 },
}

impl Taken {
    pub(super) fn read(value: &Value) -> Result<Self, LinkError> {
        Self::parse(value).ok_or(LinkError::Protocol { op: "acquire" })
    }

    fn parse(value: &Value) -> Option<Self> {
        let words: Vec<_> = text(value)?.split(' ').collect();
        Some(match words.as_slice() {
            ["FENCED", now] => Self::Fenced { now: number(now)? },
            ["TAKEN", floor, now] => Self::Below { floor: number(floor)?, now: number(now)? },
            ["BUSY", left, now] => {
                let left: i64 = left.parse().ok()?;
                Self::Busy { left: u64::try_from(left).ok().map(Duration::from_millis), now: number(now)? }
            }
            ["GONE", now] => Self::Gone { now: number(now)? },
            ["STALE", now] => Self::Stale { now: number(now)? },
            _ => return None,
        })
    }

    pub(super) fn now(self) -> u64 {
        match self {
            Self::Fenced { now }
            | Self::Below { now, .. }
            | Self::Busy { now, .. }
            | Self::Gone { now }
            | Self::Stale { now } => now,
        }
    }
}

/// One server's reply to an extension, for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extended {
    /// The server still stored the value, and extended its lease.
    Kept,
    /// Nobody holds the resource there.
    Absent,
    /// Nobody holds the resource there, and the server has no floor of the bucket either: it lost its data.
    Emptied,
    /// Another value holds the resource there.
    Foreign,
}

impl Extended {
    /// The server's time, and one result for each resource.
    pub(super) fn read_all(value: &Value, expected: usize) -> Result<(u64, Vec<Self>), LinkError> {
        Self::parse_all(value)
            .filter(|(_, results)| results.len() == expected)
            .ok_or(LinkError::Protocol { op: "renew" })
    }

    fn parse_all(value: &Value) -> Option<(u64, Vec<Self>)> {
        let Value::Array(parts) = value else { return None };
        let (now, results) = parts.split_first()?;
        let results = results.iter().map(|result| match result {
            Value::Int(1) => Some(Self::Kept),
            Value::Int(0) => Some(Self::Absent),
            Value::Int(2) => Some(Self::Foreign),
            Value::Int(3) => Some(Self::Emptied),
            _ => None,
        });
        Some((number(text(now)?)?, results.collect::<Option<_>>()?))
    }
}

/// Whether the server still stored the value when the release arrived.
pub(super) fn released(value: &Value) -> Result<bool, LinkError> {
    match value {
        Value::Int(found) => Ok(*found != 0),
        _ => Err(LinkError::Protocol { op: "release" }),
    }
}

/// The value that holds the resource on one server, and the time it has left there: `None` if it never expires.
///
/// `Ok(None)` if nobody holds the resource there.
pub(super) fn inspected(value: &Value) -> Result<Option<(Vec<u8>, Option<Duration>)>, LinkError> {
    let Value::Array(parts) = value else { return Err(LinkError::Protocol { op: "inspect" }) };
    match parts.as_slice() {
        [Value::BulkString(held), Value::Int(_)] if held.is_empty() => Ok(None),
        [Value::BulkString(held), Value::Int(left)] => {
            Ok(Some((held.clone(), u64::try_from(*left).ok().map(Duration::from_millis))))
        }
        _ => Err(LinkError::Protocol { op: "inspect" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_no_script_gives_are_errors() {
        let taken = |text: &str| Taken::read(&Value::BulkString(text.into()));
        assert_eq!(taken("TAKEN 7 9").unwrap(), Taken::Below { floor: 7, now: 9 });
        assert_eq!(taken("BUSY -1 9").unwrap(), Taken::Busy { left: None, now: 9 });
        for odd in ["", "FENCED", "FENCED x", "TAKEN 1e15 2", "BUSY 1", "OK"] {
            assert!(taken(odd).is_err(), "{odd}");
        }
        assert!(Taken::read(&Value::Nil).is_err());
        let array = |codes: &[i64]| {
            let now = std::iter::once(Value::BulkString("5".into()));
            Value::Array(now.chain(codes.iter().map(|code| Value::Int(*code))).collect())
        };
        assert_eq!(Extended::read_all(&array(&[1, 3]), 2).unwrap(), (5, vec![Extended::Kept, Extended::Emptied]));
        assert!(Extended::read_all(&array(&[1]), 2).is_err());
        assert!(Extended::read_all(&array(&[4]), 1).is_err());
    }
}
