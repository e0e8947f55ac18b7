//! Asks servers what clients have left behind.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Error, Leftovers, RedisCluster, RedisServer, Result, SentinelGroup};

/// How long clients may take to clean up: longer than the 12 s for which a dead waiter's entry outlives its wait.
const LIMIT: Duration = Duration::from_secs(20);

impl Leftovers {
    async fn keys_on(mut self, server: &RedisServer) -> Result<Self> {
        let keys = server.command(&["KEYS", "*"]).await?;
        let left = keys.lines().filter(|key| !key.ends_with("}f"));
        self.keys.extend(left.map(str::to_owned));
        Ok(self)
    }

    async fn channels_on(mut self, server: &RedisServer) -> Result<Self> {
        for kind in ["CHANNELS", "SHARDCHANNELS"] {
            let channels = server.command(&["PUBSUB", kind]).await?;
            let left = channels.lines().filter(|channel| !channel.starts_with("__sentinel__:"));
            self.channels.extend(left.map(str::to_owned));
        }
        Ok(self)
    }

    async fn clients_on(mut self, server: &RedisServer) -> Result<Self> {
        let clients = server.command(&["CLIENT", "LIST"]).await?;
        let field = |line: &str, name: &str| {
            let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_default().to_owned()
        };
        let own = clients.lines().filter(|line| field(line, "name").starts_with("stockade:"));
        self.clients.extend(own.map(|line| {
            let (name, addr, command) = (field(line, "name"), field(line, "addr"), field(line, "cmd"));
            format!("{name} {addr} {command}")
        }));
        Ok(self)
    }

    /// Asks until nothing is left but names that the rule accepts.
    async fn gone(
        limit: Duration,
        rule: impl Fn(&str) -> bool,
        mut ask: impl AsyncFnMut() -> Result<Self>,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let left = ask().await?.ignoring(&rule);
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Error::LeftBehind { left: Box::new(left), limit });
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl RedisServer {
    /// The keys, subscriptions and connections that clients have left behind here.
    ///
    /// # Errors
    ///
    /// When the server can't be asked.
    pub async fn leftovers(&self) -> Result<Leftovers> {
        Leftovers::default().keys_on(self).await?.channels_on(self).await?.clients_on(self).await
    }
}

impl SentinelGroup {
    /// The keys that clients have left behind on the primary, and their subscriptions and connections on any server or
    /// sentinel that runs.
    ///
    /// # Errors
    ///
    /// When one of them can't be asked, as while it is frozen.
    pub async fn leftovers(&self) -> Result<Leftovers> {
        let mut left = Leftovers::default().keys_on(self.primary().await?).await?;
        for server in self.servers().iter().filter(|server| server.pid() != 0) {
            left = left.channels_on(server).await?.clients_on(server).await?;
        }
        for sentinel in self.sentinels().iter().filter(|sentinel| sentinel.pid() != 0) {
            left = left.clients_on(sentinel).await?;
        }
        Ok(left)
    }
}

impl RedisCluster {
    /// The keys that clients left behind on all primaries, and their subscriptions and connections on any running node.
    ///
    /// # Errors
    ///
    /// When one of them can't be asked, as while it is frozen.
    pub async fn leftovers(&self) -> Result<Leftovers> {
        let mut left = Leftovers::default();
        for node in self.nodes().iter().filter(|node| node.pid() != 0) {
            // A replica has the same keys as its primary.
            if node.command(&["ROLE"]).await?.lines().next() == Some("master") {
                left = left.keys_on(node).await?;
            }
            left = left.channels_on(node).await?.clients_on(node).await?;
        }
        Ok(left)
    }
}

/// The waits of a test's end are the same for a server and for a group of servers.
macro_rules! until_nothing_is_left {
    ($($place:ty),+) => {$(
        impl $place {
            /// Waits until clients have left nothing behind: the end of every test that uses locks.
            ///
            /// # Errors
            ///
            /// When something is still there after 20 s, which the error lists.
            pub async fn until_nothing_is_left(&self) -> Result<()> {
                self.until_nothing_is_left_but(|_| false).await
            }

            /// Waits until nothing is left behind but keys, channels and connections whose name the rule accepts.
            ///
            /// # Errors
            ///
            /// As [`Self::until_nothing_is_left`].
            pub async fn until_nothing_is_left_but(&self, rule: impl Fn(&str) -> bool) -> Result<()> {
                Leftovers::gone(LIMIT, rule, async || self.leftovers().await).await
            }
        }
    )+};
}

until_nothing_is_left!(RedisServer, SentinelGroup, RedisCluster);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_go_away_is_named_by_an_error() {
        let redis = RedisServer::start().await.unwrap();
        redis.command(&["SET", "lost", "value"]).await.unwrap();
        let limit = Duration::from_millis(50);
        let error = Leftovers::gone(limit, |_| false, async || redis.leftovers().await).await.unwrap_err();
        assert_eq!(error.to_string(), "left behind after 50ms: keys [\"lost\"], channels [], clients []");
    }
}
