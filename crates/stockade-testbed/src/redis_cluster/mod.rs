//! A private Redis Cluster.

mod builder;
mod migration;
mod view;

use std::ops::Range;

use futures_util::future::join_all;

pub use self::builder::ClusterBuilder;
use self::view::View;
use crate::{
    Error, RedisServer, Result,
    until::{self, until},
};

const SLOTS: u16 = 16_384;
const PRIMARIES: u16 = 3;

/// A private Redis Cluster: three primaries, each with one replica unless asked otherwise, which share the 16,384 slots
/// evenly. A node counts as down after 1 s.
///
/// Each node is a [`RedisServer`] and can be paused, killed and restarted on its own; it keeps its place in the cluster
/// and loses its keys by that. Every node announces itself as 127.0.0.1. A replica takes over about 2 to 3 s after its
/// primary is gone.
///
/// Slots can be moved at once ([`Self::migrate`]) or in steps, with a look at what clients do in between
/// ([`Self::begin_migration`], [`Self::move_keys`], [`Self::finish_migration`]).
///
/// ```no_run
/// # async fn example() -> stockade_testbed::Result<()> {
/// use stockade_testbed::RedisCluster;
///
/// let cluster = RedisCluster::start().await?;
/// let slot = 3_902; // of the key "{stock}:1"
/// let new = cluster.failover(slot).await?; // kills the primary
/// let to = cluster.primary_of((slot + 8_192) % 16_384).await?;
/// cluster.begin_migration(slot, to).await?;
/// assert!(new.command(&["GET", "{stock}:1"]).await.is_err()); // ASK: not here any more
/// cluster.move_keys(slot).await?;
/// cluster.finish_migration(slot).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts three primaries and three replicas.
    ///
    /// # Errors
    ///
    /// As [`ClusterBuilder::start`].
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// A builder, for a password, further arguments of `redis-server`, and a cheaper cluster without replicas.
    #[must_use]
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// `redis-cluster://HOST:PORT,…` with all nodes, and `:PASSWORD@` in front where there is one; `rediss-cluster`
    /// with TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let (scheme, credentials) = RedisServer::entrance(&self.nodes);
        let addrs: Vec<String> = self.nodes.iter().map(|node| node.addr().to_string()).collect();
        format!("{scheme}-cluster://{credentials}{}", addrs.join(","))
    }

    /// All nodes: the primaries of the start in the order of their slots, then their replicas in the same order.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The node that serves the slot: of those that answer within 1 s and claim the slot, the one with the newest
    /// configuration.
    ///
    /// # Errors
    ///
    /// When there is none for 60 s.
    pub async fn primary_of(&self, slot: u16) -> Result<&RedisServer> {
        let mut found = None;
        let serves = async || {
            found = self.serving(slot).await;
            found.is_some()
        };
        until(format!("a node serves slot {slot}"), serves).await?;
        found.ok_or(Error::NotRunning("the primary"))
    }

    /// [`Self::primary_of`] at this moment; `None` also when it does not answer within 1 s.
    async fn serving(&self, slot: u16) -> Option<&RedisServer> {
        let views = self.views().await;
        let own = views.iter().filter_map(|(node, view)| Some((*node, view.myself()?)));
        let serving = own.filter(|(_, myself)| myself.is_primary && myself.serves(slot));
        serving.max_by_key(|(_, myself)| myself.epoch).map(|(node, _)| node)
    }

    /// A running replica of that node.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub async fn replica_of(&self, primary: &RedisServer) -> Result<&RedisServer> {
        let id = primary_id(&self.views().await, primary);
        let id = id.ok_or(Error::NotRunning("the primary"))?;
        for (node, view) in self.views().await {
            if view.myself().is_some_and(|myself| myself.replicates.as_ref() == Some(&id)) {
                return Ok(node);
            }
        }
        Err(Error::NotReached { what: format!("{} has a running replica", primary.addr()), limit: until::ASK })
    }

    /// Kills the primary of the slot, waits until its replica serves in its place, and returns the replica. The killed
    /// server can be restarted; it comes back as a replica.
    ///
    /// # Errors
    ///
    /// When that takes longer than 60 s.
    pub async fn failover(&self, slot: u16) -> Result<&RedisServer> {
        let old = self.primary_of(slot).await?;
        old.kill().await?;
        self.until_promoted_after(old, slot).await
    }

    /// Has the replica take the slot over from its living primary (`CLUSTER FAILOVER`), and returns the replica.
    ///
    /// # Errors
    ///
    /// When there is no replica, or that takes longer than 60 s.
    pub async fn switch_over(&self, slot: u16) -> Result<&RedisServer> {
        let old = self.primary_of(slot).await?;
        self.replica_of(old).await?.command(&["CLUSTER", "FAILOVER"]).await?;
        self.until_promoted_after(old, slot).await
    }

    /// Waits until a node other than `old` serves the slot and all running nodes but `old` know it: for an old one that
    /// was frozen or cut off.
    ///
    /// # Errors
    ///
    /// When that takes longer than 60 s.
    pub async fn until_promoted_after(&self, old: &RedisServer, slot: u16) -> Result<&RedisServer> {
        let promoted = async || {
            let Some(new) = self.serving(slot).await else { return false };
            let mut views = self.views().await;
            views.retain(|(node, _)| *node != old);
            new != old && views.iter().all(|(_, view)| view.is_ok && view.primary_of(slot) == Some(new.port()))
        };
        until(format!("another node serves slot {slot}"), promoted).await?;
        self.primary_of(slot).await
    }

    /// Waits until all running nodes say that the cluster is in order, agree on who serves which slots, and all running
    /// replicas are synchronised. Needed between two failovers.
    ///
    /// # Errors
    ///
    /// When that takes longer than 60 s.
    pub async fn until_settled(&self) -> Result<()> {
        until("all nodes of the cluster agree and are synchronised", async || self.is_settled().await).await
    }

    async fn is_settled(&self) -> bool {
        let views = self.views().await;
        let agree = views.windows(2).all(|pair| matches!(pair, [(_, a), (_, b)] if a.agrees_with(b)));
        let synchronised = join_all(self.running().map(RedisServer::is_synchronised)).await;
        views.len() == self.running().count()
            && agree
            && views.iter().all(|(_, view)| view.is_ok && view.is_complete(&views))
            && synchronised.into_iter().all(|synchronised| synchronised)
    }

    fn running(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes.iter().filter(|node| node.pid() != 0)
    }

    /// The view of each node that answers within 1 s.
    async fn views(&self) -> Vec<(&RedisServer, View)> {
        let views = self.running().map(async |node| (node, View::of(node).await));
        join_all(views).await.into_iter().filter_map(|(node, view)| Some((node, view.ok()?))).collect()
    }
}

fn primary_id(views: &[(&RedisServer, View)], node: &RedisServer) -> Option<String> {
    let (_, view) = views.iter().find(|(other, _)| *other == node)?;
    view.myself().map(|myself| myself.id.clone())
}

/// The slots of one of the primaries at the start.
fn share(index: u16) -> Range<u16> {
    // Rounded to the nearest, which makes them the usual ones: 0–5460, 5461–10922, 10923–16383.
    let bound = |index: u16| {
        let exact = (2 * u32::from(SLOTS) * u32::from(index) + u32::from(PRIMARIES)) / (2 * u32::from(PRIMARIES));
        u16::try_from(exact).unwrap_or(SLOTS)
    };
    bound(index)..bound(index + 1)
}
