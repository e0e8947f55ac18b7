use redis::Value;

use super::words::{number, text};
use crate::redis::LinkError;

/// The reply to an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    /// The new owner holds the resource until server time `x`.
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
