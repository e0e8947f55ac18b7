use std::fmt;

use redis::ConnectionInfo;

use super::topology::Topology;
use crate::redis::ConnectError;

/// A deadpool-redis pool for the application's own commands, of the kind that fits the topology. Cheap to clone.
///
/// ```no_run
/// use stockade::redis::{Pool, deadpool_redis::redis::AsyncCommands};
///
/// # async fn example(redis: stockade::Redis) -> Result<(), Box<dyn std::error::Error>> {
/// if let Some(Pool::Single(pool)) = redis.pool() {
///     let mut connection = pool.get().await?;
///     let visits: u64 = connection.incr("visits", 1).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Pool {
    /// For one server.
    Single(deadpool_redis::Pool),
    /// For the primary that sentinels know.
    Sentinel(deadpool_redis::sentinel::Pool),
    /// For a cluster.
    Cluster(deadpool_redis::cluster::Pool),
}

impl Pool {
    /// `None` where deadpool-redis has no way to carry the certificates.
    pub(super) fn of(
        topology: &Topology,
        settings: deadpool_redis::PoolConfig,
        own_certificates: bool,
    ) -> Result<Option<Self>, ConnectError> {
        Ok(match topology {
            Topology::Single(info) => Some(Self::single(info.clone(), settings)?),
            _ if own_certificates => None,
            Topology::Sentinel { sentinels, primary, node } => {
                let config = deadpool_redis::sentinel::Config {
                    urls: None,
                    server_type: deadpool_redis::sentinel::SentinelServerType::Master,
                    master_name: primary.clone(),
                    connections: Some(sentinels.iter().cloned().map(Into::into).collect()),
                    node_connection_info: Some(deadpool_redis::sentinel::SentinelNodeConnectionInfo {
                        tls_mode: node.is_tls().then_some(deadpool_redis::sentinel::TlsMode::Secure),
                        redis_connection_info: Some(node.redis_settings().clone().into()),
                    }),
                    pool: Some(settings),
                };
                Some(Self::Sentinel(made(config.create_pool(Some(deadpool_redis::Runtime::Tokio1)))?))
            }
            Topology::Cluster { seeds, .. } => {
                let config = deadpool_redis::cluster::Config {
                    urls: None,
                    connections: Some(seeds.iter().cloned().map(Into::into).collect()),
                    pool: Some(settings),
                    read_from_replicas: false,
                };
                Some(Self::Cluster(made(config.create_pool(Some(deadpool_redis::Runtime::Tokio1)))?))
            }
        })
    }

    fn single(info: ConnectionInfo, settings: deadpool_redis::PoolConfig) -> Result<Self, ConnectError> {
        let manager = made(deadpool_redis::Manager::new(info))?;
        let builder = deadpool_redis::Pool::builder(manager).config(settings);
        Ok(Self::Single(made(builder.runtime(deadpool_redis::Runtime::Tokio1).build())?))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single(_) => "Single",
            Self::Sentinel(_) => "Sentinel",
            Self::Cluster(_) => "Cluster",
        })
    }
}

/// The error itself is left out, because it may quote a URL with its password.
pub(super) fn made<T, E>(result: Result<T, E>) -> Result<T, ConnectError> {
    result.map_err(|_| ConnectError::config("no pool can be made of it: check addresses and pool settings"))
}
