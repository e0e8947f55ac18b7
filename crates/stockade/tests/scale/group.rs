use std::collections::HashMap;

use stockade_testbed::{RedisCluster, RedisServer, SentinelGroup};

use crate::support::{keys, until};

/// Servers that replace a lost primary by a replica.
pub(crate) enum Group {
    Sentinels(SentinelGroup),
    Cluster(RedisCluster),
}

impl Group {
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sentinels(group) => group.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// How many primaries share the locks.
    pub(crate) fn shares(&self) -> usize {
        match self {
            Self::Sentinels(_) => 1,
            Self::Cluster(_) => 3,
        }
    }

    pub(crate) async fn primary(&self, share: usize) -> &RedisServer {
        match self {
            Self::Sentinels(group) => group.primary().await.unwrap(),
            Self::Cluster(cluster) => cluster.primary_of(middle(share)).await.unwrap(),
        }
    }

    /// Waits until another server is the primary in place of `old`, and returns that server.
    pub(crate) async fn until_replaced(&self, old: &RedisServer, share: usize) -> &RedisServer {
        match self {
            Self::Sentinels(group) => group.until_promoted_after(old).await.unwrap(),
            Self::Cluster(cluster) => cluster.until_promoted_after(old, middle(share)).await.unwrap(),
        }
    }

    /// Waits until all servers agree, and until `old` is a replica without a connection of a lock store, unless it was
    /// made the primary again.
    pub(crate) async fn until_settled_without(&self, old: &RedisServer, share: usize) {
        match self {
            Self::Sentinels(group) => group.until_settled().await.unwrap(),
            Self::Cluster(cluster) => cluster.until_settled().await.unwrap(),
        }
        if self.primary(share).await == old {
            return;
        }
        until("the old primary is a replica", async || {
            old.command(&["ROLE"]).await.unwrap().lines().next() == Some("slave")
        })
        .await;
        until("nobody is connected to the old primary", async || {
            !old.command(&["CLIENT", "LIST"]).await.unwrap().contains("name=stockade:")
        })
        .await;
    }

    /// The share of each lock that is held.
    pub(crate) async fn shares_of_locks(&self) -> HashMap<String, usize> {
        let mut shares = HashMap::new();
        for share in 0..self.shares() {
            let names = keys(self.primary(share).await).await;
            let items = names.iter().filter_map(|name| name.rsplit_once(":scale:"));
            shares.extend(items.map(|(_, item)| (item.to_owned(), share)));
        }
        shares
    }
}

/// The slot in the middle of a share.
fn middle(share: usize) -> u16 {
    [2_730, 8_191, 13_653][share]
}
