use redis::Value;

use super::words::{number, token};
use crate::{
    redis::{LinkError, text},
    store::Token,
};

/// The reply to a renewal or a downgrade, for one ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// The lease was renewed. `wanted`: somebody waits for the resource.
    Extended {
        now: u64,
        wanted: bool,
    },
    /// The owner still holds the resource, but may not renew the lease.
    Ending {
        now: u64,
    },
    Gone {
        now: u64,
    },
}

impl Renewed {
    /// Reads the reply to a RENEW of `expected` resources.
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

    /// Reads the reply to a DOWNGRADE.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let (code, now) = text(value)?.split_once(' ')?;
        let [code] = code.as_bytes() else { return None };
        Self::found(*code, number(now)?)
    }

    pub(crate) fn now(self) -> u64 {
        match self {
            Self::Extended { now, .. } | Self::Ending { now } | Self::Gone { now } => now,
        }
    }
}

/// The reply to an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    /// The new owner holds the resource until server time `x`.
    Held {
        token: Token,
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
        let held = |minted, x, now| Some(Self::Held { token: token(minted)?, x: number(x)?, now: number(now)? });
        let words: Vec<_> = text(value).unwrap_or_default().split(' ').collect();
        let adopted = match words.as_slice() {
            ["ADOPTED", minted, x, now] => held(minted, x, now),
            ["GONE", _] => Some(Self::Gone),
            ["STALE", now] => number(now).map(|now| Self::Stale { now }),
            _ => None,
        };
        adopted.ok_or(LinkError::Protocol { op: "adopt" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_no_script_gives_are_errors() {
        let renewed = |text: &str| Renewed::read_all(&Value::BulkString(text.into()), 2);
        assert!(renewed("5 13").is_ok());
        for odd in ["", "5", "5 1", "5 111", "5 19", "x 11"] {
            assert!(renewed(odd).is_err(), "{odd}");
        }
        assert!(Renewed::read_all(&Value::Array(vec![]), 1).is_err());
    }
}
