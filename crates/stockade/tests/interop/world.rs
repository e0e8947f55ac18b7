use std::{borrow::Cow, time::Duration};

use futures_util::future::{join_all, try_join_all};
use stockade::{Locks, Redis, Resource};
pub(crate) use stockade_testbed::eventually as until;
use stockade_testbed::{Fault, Proxy, RedisServer};

/// The limit for each wait. Only a failing test reaches it, however busy the machine is.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The name of the lock in all programs. pottery always adds this prefix.
pub(crate) const NAME: &str = "redlock:stock:1";

pub(crate) struct Sku(pub(crate) &'static str);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }
}

/// Three servers, and our locks on them. The peers reach the servers directly, and our locks through proxies.
pub(crate) struct World {
    pub(crate) servers: Vec<RedisServer>,
    proxies: Vec<Proxy>,
    pub(crate) ours: Locks,
}

impl World {
    pub(crate) async fn start() -> Self {
        let servers = RedisServer::start_many(3).await.unwrap();
        let proxies = try_join_all(servers.iter().map(|server| Proxy::start(server.addr()))).await.unwrap();
        let urls = proxies.iter().zip(&servers).map(|(proxy, server)| proxy.url_for(&server.url()));
        let redis = try_join_all(urls.map(Redis::connect)).await.unwrap();
        let ours = Locks::builder().redlock(redis).key_format(|key| format!("redlock:{key}")).build().unwrap();
        Self { servers, proxies, ours }
    }

    /// Cuts our locks off from the servers, or connects them again. No command that was sent is lost.
    pub(crate) fn cut_us_off(&self, is_cut: bool) {
        for proxy in &self.proxies {
            proxy.set(if is_cut { Fault::Hole } else { Fault::None });
        }
    }

    /// The value of the lock on each server, which names its holder.
    pub(crate) async fn holders(&self) -> Vec<String> {
        join_all(self.servers.iter().map(async |server| server.command(&["GET", NAME]).await.unwrap())).await
    }

    /// Waits until the lock is free on every server.
    pub(crate) async fn until_free(&self) {
        until("the lock is free everywhere", async || self.holders().await.iter().all(String::is_empty)).await;
    }

    /// Waits until one holder has the lock on all servers. A holder goes on once it has a quorum, and its commands to
    /// the other servers arrive later: in pottery even after a release that was sent after them.
    pub(crate) async fn until_held_everywhere(&self) {
        let one = async || {
            let holders = self.holders().await;
            holders.iter().all(|holder| !holder.is_empty() && *holder == holders[0])
        };
        until("one has the lock everywhere", one).await;
    }

    /// How many scripts each server has run so far.
    pub(crate) async fn scripts_called(&self) -> Vec<u64> {
        join_all(self.servers.iter().map(async |server| server.calls_of("evalsha").await.unwrap())).await
    }

    /// Shuts our locks down, and checks that they leave nothing behind.
    pub(crate) async fn end(self) {
        self.ours.shutdown(LIMIT).await;
        for server in &self.servers {
            server.until_nothing_is_left().await.unwrap();
        }
    }
}
