use std::time::Duration;

use redis::{Cmd, Value};

use crate::redis::LinkError;

/// How many replicas must have a write, and how long they may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) timeout: Duration,
}

impl Replicas {
    /// The reply is the number of replicas that have all earlier writes of the connection. It comes after the time-out
    /// at the latest, and meanwhile the server runs nothing else of the connection.
    pub(super) fn command(self) -> Cmd {
        let mut command = redis::cmd("WAIT");
        // 0 would mean no limit.
        command.arg(self.count).arg(self.timeout.as_millis().max(1).to_string());
        command
    }

    /// Whether enough replicas have it.
    pub(super) fn read(self, reply: &Value) -> Result<bool, LinkError> {
        match reply {
            Value::Int(count) => Ok(*count >= i64::from(self.count)),
            _ => Err(LinkError::Protocol { op: "wait" }),
        }
    }
}
