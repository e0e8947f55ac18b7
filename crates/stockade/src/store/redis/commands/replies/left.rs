use redis::Value;

use crate::redis::LinkError;

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
