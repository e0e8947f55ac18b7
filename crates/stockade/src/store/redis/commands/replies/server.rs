//! What a server says about itself.

use redis::Value;

use super::words::number;
use crate::redis::{LinkError, text};

/// The reply to TIME, in µs.
pub(crate) fn time(value: &Value) -> Result<u64, LinkError> {
    let read = || {
        let Value::Array(parts) = value else { return None };
        let [seconds, micros] = parts.as_slice() else { return None };
        number(text(seconds)?)?.checked_mul(1_000_000)?.checked_add(number(text(micros)?)?)
    };
    read().ok_or(LinkError::Protocol { op: "time" })
}
