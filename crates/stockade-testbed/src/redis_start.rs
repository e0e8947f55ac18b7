use futures_util::future::try_join_all;

use crate::{RedisBuilder, RedisServer, Result};

impl RedisServer {
    /// A builder, for a password, a primary to follow, and further arguments of `redis-server`.
    #[must_use]
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Starts a server with the defaults.
    ///
    /// # Errors
    ///
    /// As [`RedisBuilder::start`].
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// Starts independent servers, as locks by quorum need them.
    ///
    /// # Errors
    ///
    /// As [`RedisBuilder::start`].
    pub async fn start_many(count: usize) -> Result<Vec<Self>> {
        try_join_all((0..count).map(|_| Self::start())).await
    }
}

impl RedisBuilder {
    /// Follows another server. The start waits for the first synchronisation; a restart does not, since the other may
    /// be gone by then.
    #[must_use]
    pub fn replica_of(mut self, primary: &RedisServer) -> Self {
        self.is_replica = true;
        let port = primary.port().to_string();
        let shown = primary.password().map(|password| ["--masterauth".to_owned(), password.to_owned()]);
        self.args(["--replicaof", "127.0.0.1", &port]).args(shown.into_iter().flatten())
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    ///
    /// When `redis-server` is not installed, ends during the start or does not answer within 30 s.
    pub async fn start(self) -> Result<RedisServer> {
        RedisServer::launch(self).await
    }
}
