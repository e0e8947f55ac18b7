use redis::Value;

use crate::redis::LinkError;

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
