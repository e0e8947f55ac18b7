use std::ffi::OsString;

use futures_util::future::try_join_all;

use super::{PRIMARIES, RedisCluster, share, view::View};
#[cfg(feature = "tls")]
use crate::Certificates;
use crate::{RedisBuilder, RedisServer, Result, until::until};

/// Settings of a [`RedisCluster`].
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    nodes: RedisBuilder,
    has_replicas: bool,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        let nodes = RedisBuilder::default()
            .cluster_node()
            .args(["--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000"])
            .args(["--cluster-announce-ip", "127.0.0.1"]);
        Self { nodes, has_replicas: true }
    }
}

impl ClusterBuilder {
    /// Three primaries and nothing else, for tests in which no node fails.
    #[must_use]
    pub fn without_replicas(mut self) -> Self {
        self.has_replicas = false;
        self
    }

    /// Adds an argument to the command line of every node.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.nodes = self.nodes.arg(arg);
        self
    }

    /// The password of every node.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.nodes = self.nodes.password(password);
        self
    }

    /// All nodes speak TLS with these certificates, with clients and with each other, and nothing else; they refuse clients
    /// without a certificate of the same authority.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn mutual_tls(mut self, certificates: &Certificates) -> Self {
        self.nodes = self.nodes.mutual_tls(certificates);
        self
    }

    /// Starts the nodes and joins them, and waits until all of them serve and the replicas are synchronised.
    ///
    /// # Errors
    ///
    /// When `redis-server` is not installed, a node ends during the start, or that takes longer than 60 s.
    pub async fn start(self) -> Result<RedisCluster> {
        let count = if self.has_replicas { 2 * PRIMARIES } else { PRIMARIES };
        let nodes = try_join_all((0..count).map(|_| self.nodes.clone().start())).await?;
        let cluster = RedisCluster { nodes };
        let (primaries, replicas) = cluster.nodes.split_at(PRIMARIES.into());
        // A node takes an epoch only while it knows no other node.
        assign_slots(primaries).await?;
        meet(&cluster.nodes).await?;
        until("all nodes of the cluster know each other", async || cluster.is_complete().await).await?;
        for (replica, primary) in replicas.iter().zip(primaries) {
            let id = primary.command(&["CLUSTER", "MYID"]).await?;
            replica.command(&["CLUSTER", "REPLICATE", &id]).await?;
        }
        cluster.until_settled().await?;
        Ok(cluster)
    }
}

async fn assign_slots(primaries: &[RedisServer]) -> Result<()> {
    for (index, primary) in (0..).zip(primaries) {
        let slots = share(index);
        let (first, last) = (slots.start.to_string(), (slots.end - 1).to_string());
        primary.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await?;
        // Different epochs from the start: nodes that find the same one would have to sort that out between them.
        primary.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await?;
    }
    Ok(())
}

/// Introduces each node to each other, which is quicker than to wait for gossip.
async fn meet(nodes: &[RedisServer]) -> Result<()> {
    for (index, node) in nodes.iter().enumerate() {
        for other in nodes.iter().skip(index + 1) {
            node.command(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]).await?;
        }
    }
    Ok(())
}

impl RedisCluster {
    async fn is_complete(&self) -> bool {
        let views: Vec<(&RedisServer, View)> = self.views().await;
        views.len() == self.nodes.len() && views.iter().all(|(_, view)| view.is_complete(&views))
    }
}
