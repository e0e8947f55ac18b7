use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::time::timeout;

use super::connection::Connection;
use crate::redis::{LinkError, Script};

/// Sends commands on a connection that is not open to callers yet.
pub(crate) struct Handshake(pub(super) Arc<Connection>);

impl Handshake {
    /// One script call within the command time-out.
    pub(crate) async fn call(
        &self,
        script: &'static Script,
        keys: &[String],
        args: &[Vec<u8>],
    ) -> Result<Value, LinkError> {
        self.command(self.0.scripts.evalsha(script, keys.to_vec(), args.to_vec())).await
    }

    /// One command within the command time-out.
    pub(crate) async fn command(&self, command: Cmd) -> Result<Value, LinkError> {
        let flight = self.0.wire.start(command)?;
        match timeout(self.0.wire.timeout, flight).await {
            Ok(Ok(Value::ServerError(error))) if error.code() == "MOVED" => Err(LinkError::Moved),
            Ok(Ok(Value::ServerError(error))) if matches!(error.code(), "ASK" | "TRYAGAIN") => Err(LinkError::Moving),
            Ok(Ok(Value::ServerError(error))) => Err(LinkError::Refused { code: error.code().to_owned() }),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => Err(LinkError::Lost),
            Err(_) => Err(LinkError::Timeout),
        }
    }
}
