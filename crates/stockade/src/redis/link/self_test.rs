use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::redis::{Script, dial::HandshakeError, script};

const SELF_TEST: Script = script!("self_test", "../scripts/self_test.lua");

/// Tests whether a message that a script publishes comes back on this connection, and whether the script counts its
/// receiver. Behind some proxies and managed servers it does not. There, "no receiver" must not be taken for "the
/// waiter is dead".
pub(super) struct SelfTest {
    payload: String,
    seen: CancellationToken,
}

impl SelfTest {
    pub(super) fn new() -> Self {
        Self { payload: format!("T {:032x}", rand::random::<u128>()), seen: CancellationToken::new() }
    }

    /// Whether this message is the one of the test. If so, that is noted.
    pub(super) fn is_answered_by(&self, payload: &[u8]) -> bool {
        let is_answer = payload == self.payload.as_bytes();
        if is_answer {
            self.seen.cancel();
        }
        is_answer
    }

    /// Servers from Redis 7.2 on write the message behind the reply, so it may take a moment longer.
    pub(super) async fn run(
        &self,
        limit: Duration,
        connection: &mut MultiplexedConnection,
        publish: &str,
        channel: &str,
    ) -> Result<bool, HandshakeError> {
        let receivers: i64 = redis::cmd("EVAL")
            .arg(SELF_TEST.text)
            .arg(0)
            .arg(publish)
            .arg(channel)
            .arg(&self.payload)
            .query_async(connection)
            .await?;
        Ok(receivers >= 1 && timeout(limit, self.seen.cancelled()).await.is_ok())
    }
}
