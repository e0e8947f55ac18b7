use std::time::Duration;

use redis::{Cmd, Value};

use crate::redis::LinkError;

/// How many replicas must have a write, and how long it may take them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) timeout: Duration,
}

impl Replicas {
    /// Answered, at the latest after the time-out, with the number of replicas that have all writes before it. The
    /// server runs nothing else of the connection meanwhile.
    pub(super) fn command(self) -> Cmd {
        let mut command = redis::cmd("WAIT");
        // 0 would be without limit.
        command.arg(self.count).arg(self.timeout.as_millis().max(1).to_string());
        command
    }

    /// Whether enough have answered.
    pub(super) fn read(self, reply: &Value) -> Result<bool, LinkError> {
        match reply {
            Value::Int(count) => Ok(*count >= i64::from(self.count)),
            _ => Err(LinkError::Protocol { op: "wait" }),
        }
    }
}
