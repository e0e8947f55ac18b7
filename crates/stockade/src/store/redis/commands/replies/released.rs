use redis::Value;

use super::words::token;
use crate::{
    redis::{LinkError, text},
    store::Token,
};

/// The reply to a release or a cancel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Whether the owner held the resource or was in its queue.
    pub(crate) found: bool,
    /// Whether another call would serve more waiters.
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

/// The number of holders and the token in the reply to a FORCE.
pub(crate) fn forced(value: &Value) -> Result<(u64, Token), LinkError> {
    let read = || {
        let Value::Array(parts) = value else { return None };
        let [Value::Int(holders), of] = parts.as_slice() else { return None };
        u64::try_from(*holders).ok().zip(text(of).and_then(token))
    };
    read().ok_or(LinkError::Protocol { op: "force" })
}
