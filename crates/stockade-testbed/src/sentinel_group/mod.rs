//! A private primary with replicas, watched by sentinels.

mod builder;

use std::{cmp::Reverse, collections::HashMap, net::SocketAddr};

use futures_util::future::join_all;

pub use self::builder::SentinelBuilder;
use crate::{
    Error, RedisServer, Result,
    until::{self, until},
};

/// A private primary with two replicas and three sentinels that watch over them as `primary`: quorum 2, a server counts
/// as down after 2 s, an attempt at a failover ends after 3 s.
///
/// Each of the six is a [`RedisServer`] and can be paused, killed and restarted on its own. A failover takes about 2.5
/// to 3.5 s.
///
/// ```no_run
/// # async fn example() -> stockade_testbed::Result<()> {
/// use stockade_testbed::SentinelGroup;
///
/// let group = SentinelGroup::start().await?;
/// let old = group.primary().await?;
/// old.pause()?; // frozen until it is replaced
/// let new = group.until_promoted_after(old).await?;
/// new.command(&["SET", "key", "value"]).await?;
/// old.resume()?; // takes itself for the primary until a sentinel tells it otherwise
/// group.until_settled().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SentinelGroup {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl SentinelGroup {
    /// The name that the sentinels know the primary by.
    pub const NAME: &'static str = "primary";

    /// Starts a group without a password.
    ///
    /// # Errors
    ///
    /// As [`SentinelBuilder::start`].
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// A builder, for a password and further arguments of `redis-server`.
    #[must_use]
    pub fn builder() -> SentinelBuilder {
        SentinelBuilder::new()
    }

    /// `redis-sentinel://HOST:PORT,…/primary` with all sentinels, and `:PASSWORD@` in front where there is one;
    /// `rediss-sentinel` with TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let (scheme, credentials) = RedisServer::entrance(&self.servers);
        let addrs: Vec<String> = self.sentinel_addrs().iter().map(ToString::to_string).collect();
        format!("{scheme}-sentinel://{credentials}{}/{}", addrs.join(","), Self::NAME)
    }

    /// The addresses of the sentinels.
    #[must_use]
    pub fn sentinel_addrs(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(RedisServer::addr).collect()
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The servers that keep data: the one that was primary at the start, then its replicas.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The primary in the newest configuration that any sentinel reports. This server may be down or frozen.
    ///
    /// # Errors
    ///
    /// When no sentinel answers within 1 s.
    pub async fn primary(&self) -> Result<&RedisServer> {
        let views = join_all(self.sentinels.iter().map(|sentinel| view(sentinel, &["SENTINEL", "MASTER", Self::NAME])));
        // The sentinel that leads a failover reports the old primary under the new epoch until the replicas have moved.
        let age = |view: &HashMap<String, String>| (Reverse(number(view, "config-epoch")), is_leading(view));
        let newest = views.await.into_iter().flatten().min_by_key(age);
        let port = newest.map(|view| number(&view, "port"));
        let found = self.servers.iter().find(|server| Some(u64::from(server.port())) == port);
        found.ok_or_else(nobody_named)
    }

    /// The servers other than the primary, running or not.
    ///
    /// # Errors
    ///
    /// As [`Self::primary`].
    pub async fn replicas(&self) -> Result<Vec<&RedisServer>> {
        let primary = self.primary().await?;
        Ok(self.servers.iter().filter(|server| *server != primary).collect())
    }

    /// Kills the primary, waits until another server is promoted, and returns that server. The killed server can be
    /// restarted; it comes back as a replica.
    ///
    /// # Errors
    ///
    /// When that takes longer than 60 s.
    pub async fn failover(&self) -> Result<&RedisServer> {
        let old = self.primary().await?;
        old.kill().await?;
        self.until_promoted_after(old).await
    }

    /// Has the sentinels promote a replica while the primary is alive (`SENTINEL FAILOVER`), and returns it once it is
    /// the primary. The old primary becomes a replica.
    ///
    /// # Errors
    ///
    /// When no sentinel is willing, or that takes longer than 60 s.
    pub async fn switch_over(&self) -> Result<&RedisServer> {
        let old = self.primary().await?;
        let sentinel = running(&self.sentinels).next().ok_or(Error::NotRunning("every sentinel"))?;
        sentinel.command(&["SENTINEL", "FAILOVER", Self::NAME]).await?;
        self.until_promoted_after(old).await
    }

    /// Waits until a server other than `old` is the primary, and returns it: for an old one that was frozen or cut off.
    ///
    /// # Errors
    ///
    /// When that takes longer than 60 s.
    pub async fn until_promoted_after(&self, old: &RedisServer) -> Result<&RedisServer> {
        let mut promoted = None;
        until("the sentinels have promoted another server", async || {
            if let Ok(primary) = self.primary().await
                && primary != old
                && primary.is_primary().await
            {
                promoted = Some(primary);
            }
            promoted.is_some()
        })
        .await?;
        promoted.ok_or_else(nobody_named)
    }

    /// Cuts the replicas off from the primary until [`Self::mend_replication`] is called. They keep their data.
    ///
    /// # Errors
    ///
    /// When one does not answer, or the primary still counts one of them after 60 s.
    pub async fn cut_replication(&self) -> Result<()> {
        for replica in self.replicas().await? {
            replica.command(&["CONFIG", "SET", "masteruser", "nobody"]).await?;
            replica.command(&["CONFIG", "SET", "masterauth", "nothing"]).await?;
        }
        let primary = self.primary().await?;
        primary.command(&["CLIENT", "KILL", "TYPE", "replica"]).await?;
        let is_alone = async || {
            let info = primary.ask(&["INFO", "replication"]).await;
            info.is_ok_and(|info| info.contains("connected_slaves:0"))
        };
        until("nothing is replicated", is_alone).await
    }

    /// Undoes [`Self::cut_replication`], on all servers that run.
    ///
    /// # Errors
    ///
    /// When one does not answer.
    pub async fn mend_replication(&self) -> Result<()> {
        for server in running(&self.servers) {
            let password = server.password().unwrap_or_default();
            server.command(&["CONFIG", "SET", "masteruser", ""]).await?;
            server.command(&["CONFIG", "SET", "masterauth", password]).await?;
        }
        Ok(())
    }

    /// Waits until all running sentinels agree on the primary and know all running servers and sentinels, and every
    /// running server but the primary is its synchronised replica. Needed between two failovers: a replica that is not
    /// known to be synchronised is not promoted.
    ///
    /// # Errors
    ///
    /// When that takes longer than 60 s.
    pub async fn until_settled(&self) -> Result<()> {
        until("sentinels, primary and replicas agree", async || self.is_settled().await.unwrap_or(false)).await
    }

    async fn is_settled(&self) -> Result<bool> {
        let primary = self.primary().await?;
        let port = u64::from(primary.port());
        let replicas: Vec<_> = running(&self.servers).filter(|server| *server != primary).collect();
        let others = running(&self.sentinels).count().saturating_sub(1);
        for sentinel in running(&self.sentinels) {
            let seen = view(sentinel, &["SENTINEL", "MASTER", Self::NAME]).await?;
            let known = number(&seen, "num-other-sentinels");
            if number(&seen, "port") != port || known < others as u64 || seen.get("flags") != Some(&"master".into()) {
                return Ok(false);
            }
            let listed = sentinel.ask(&["SENTINEL", "REPLICAS", Self::NAME]).await?;
            let healthy = listed.split("name\n").filter(|replica| {
                let view = pairs(&format!("name\n{replica}"));
                view.get("master-link-status").is_some_and(|status| status == "ok")
                    && number(&view, "master-port") == port
                    && view.get("flags").is_some_and(|flags| flags == "slave")
            });
            if healthy.count() < replicas.len() {
                return Ok(false);
            }
        }
        let synchronised = join_all(replicas.iter().map(|replica| replica.follows(primary)));
        Ok(primary.is_primary().await && synchronised.await.into_iter().all(|synchronised| synchronised))
    }
}

fn nobody_named() -> Error {
    Error::NotReached { what: "a sentinel names one of the servers as primary".into(), limit: until::ASK }
}

fn is_leading(view: &HashMap<String, String>) -> bool {
    view.get("flags").is_some_and(|flags| flags.contains("failover_in_progress"))
}

fn running(servers: &[RedisServer]) -> impl Iterator<Item = &RedisServer> {
    servers.iter().filter(|server| server.pid() != 0)
}

/// Parses a sentinel's answer of alternating names and values, one per line.
async fn view(sentinel: &RedisServer, words: &[&str]) -> Result<HashMap<String, String>> {
    Ok(pairs(&sentinel.ask(words).await?))
}

fn pairs(text: &str) -> HashMap<String, String> {
    let mut lines = text.lines().map(str::to_owned);
    std::iter::from_fn(|| Some((lines.next()?, lines.next()?))).collect()
}

fn number(view: &HashMap<String, String>, name: &str) -> u64 {
    view.get(name).and_then(|value| value.parse().ok()).unwrap_or_default()
}
