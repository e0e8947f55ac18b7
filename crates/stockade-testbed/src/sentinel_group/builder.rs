use std::time::Duration;

use futures_util::future::try_join_all;

use super::SentinelGroup;
#[cfg(feature = "tls")]
use crate::Certificates;
use crate::{RedisBuilder, RedisServer, Result};

const REPLICAS: usize = 2;
const SENTINELS: usize = 3;

/// A sentinel tries to connect once per second, and counts the time until the first answer as silence. It may first try
/// a new primary a second after it tried the old one. With 1 s it would therefore replace the new primary whenever the
/// machine is slow.
const DOWN_AFTER: Duration = Duration::from_secs(2);

/// Settings of a [`SentinelGroup`].
#[derive(Debug, Clone)]
pub struct SentinelBuilder {
    servers: RedisBuilder,
    down_after: Duration,
}

impl SentinelBuilder {
    pub(super) fn new() -> Self {
        Self { servers: RedisBuilder::default(), down_after: DOWN_AFTER }
    }

    /// Adds an argument to the command line of the primary and its replicas.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<std::ffi::OsString>) -> Self {
        self.servers = self.servers.arg(arg);
        self
    }

    /// The password of the primary and its replicas. The sentinels themselves ask for none.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.servers = self.servers.password(password);
        self
    }

    /// How long a server is silent until it counts as down: 2 s unless set. With 1 s or less a new primary may be
    /// replaced at once, since sentinels take up to a second to connect to it.
    #[must_use]
    pub fn down_after(mut self, silence: Duration) -> Self {
        self.down_after = silence;
        self
    }

    /// All six speak TLS with these certificates, with clients and with each other, and nothing else; they refuse clients
    /// without a certificate of the same authority.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn mutual_tls(mut self, certificates: &Certificates) -> Self {
        self.servers = self.servers.mutual_tls(certificates);
        self
    }

    /// Starts all servers, and waits until the replicas are synchronised and the sentinels know them and each other.
    ///
    /// # Errors
    ///
    /// When `redis-server` is not installed, one of them ends during the start, or that takes longer than 60 s.
    pub async fn start(self) -> Result<SentinelGroup> {
        let tls = self.servers.tls.clone();
        let primary = self.servers.clone().start().await?;
        let replicas = try_join_all((0..REPLICAS).map(|_| self.servers.clone().replica_of(&primary).start())).await?;
        let sentinel = RedisBuilder { sentinel: Some(self.configuration(&primary)), tls, ..RedisBuilder::default() };
        let sentinels = try_join_all((0..SENTINELS).map(|_| sentinel.clone().start())).await?;
        let servers = [primary].into_iter().chain(replicas).collect();
        let group = SentinelGroup { servers, sentinels };
        group.until_settled().await?;
        Ok(group)
    }

    fn configuration(&self, primary: &RedisServer) -> String {
        let (name, port, down_after) = (SentinelGroup::NAME, primary.port(), self.down_after.as_millis());
        let mut text = format!(
            "sentinel monitor {name} 127.0.0.1 {port} 2\nsentinel down-after-milliseconds {name} {down_after}\n\
             sentinel failover-timeout {name} 3000\nsentinel parallel-syncs {name} 2\n",
        );
        if let Some(password) = primary.password() {
            text.push_str(&format!("sentinel auth-pass {name} {password}\n"));
        }
        text
    }
}
