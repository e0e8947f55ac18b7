use std::fmt;

use redis::Client;
use redis::ConnectionInfo;

use super::{
    pool::{Pool, made},
    tls::{self, TlsOptions},
    topology::Topology,
    url,
};
use crate::redis::ConnectError;

/// Where Redis is: a URL, a configuration of deadpool-redis, or a pool together with the client it was made from.
///
/// | URL | what it names |
/// |---|---|
/// | `redis://[[user]:password@]host[:port][/database]` | one server |
/// | `unix:///path/to/socket[?db=…&user=…&pass=…]` | one server on this machine |
/// | `redis-sentinel://[[user]:password@]host[:port],…/primary[/database]` | the primary that these sentinels watch under this name; `?sentinel_username=…&sentinel_password=…` enters the sentinels, user and password in front of the hosts the primary |
/// | `redis-cluster://[[user]:password@]host[:port],…` | the cluster that these nodes are of |
/// | `rediss://`, `rediss-sentinel://`, `rediss-cluster://` | the same with TLS on every connection (cargo feature `tls`), see `TlsOptions` |
///
/// Write special bytes of user, password and name as `%XX`.
///
/// A pool alone is not enough: Stockade's link opens connections of its own, which the manager of a pool can't make.
pub struct Source(Kind);

enum Kind {
    Config(Box<deadpool_redis::Config>),
    Pool(deadpool_redis::Pool, Box<Client>),
    Sentinel(Box<deadpool_redis::sentinel::Config>),
    Cluster(Box<deadpool_redis::cluster::Config>),
}

impl Source {
    pub(in crate::redis) fn into_parts(
        self,
        options: Option<&TlsOptions>,
    ) -> Result<(Topology, Option<Pool>), ConnectError> {
        let prepared = |topology: Topology| topology.map(|info| tls::prepare(info, options));
        match self.0 {
            Kind::Config(config) => {
                let topology = match (&config.url, &config.connection) {
                    (Some(url), None) => url::parse(url)?,
                    (None, Some(connection)) => Topology::Single(connection.clone().into()),
                    (None, None) => Topology::Single(deadpool_redis::ConnectionInfo::default().into()),
                    (Some(_), Some(_)) => return Err(both("url", "connection")),
                };
                let topology = prepared(topology)?;
                let pool = Pool::of(&topology, config.get_pool_config(), options.is_some())?;
                Ok((topology, pool))
            }
            Kind::Pool(pool, client) => {
                let topology = prepared(Topology::Single(client.get_connection_info().clone()))?;
                Ok((topology, Some(Pool::Single(pool))))
            }
            Kind::Sentinel(config) => {
                let topology = prepared(sentinel_topology(&config)?)?;
                let pool = match options {
                    Some(_) => None,
                    // The client is made as a client of the primary: the caller's may be one for replicas, which the
                    // link can't use.
                    None => Some(Pool::Sentinel(made(config.create_pool(Some(deadpool_redis::Runtime::Tokio1)))?)),
                };
                Ok((topology, pool))
            }
            Kind::Cluster(config) => {
                let seeds = places(config.urls.as_deref(), config.connections.as_deref())?;
                let node = super::topology::NodeSettings::like(seeds[0].clone());
                let topology = prepared(Topology::Cluster { seeds, node })?;
                let pool = match options {
                    Some(_) => None,
                    None => Some(Pool::Cluster(made(config.create_pool(Some(deadpool_redis::Runtime::Tokio1)))?)),
                };
                Ok((topology, pool))
            }
        }
    }
}

fn sentinel_topology(config: &deadpool_redis::sentinel::Config) -> Result<Topology, ConnectError> {
    use redis::{ConnectionAddr, IntoConnectionInfo};

    let sentinels = places(config.urls.as_deref(), config.connections.as_deref())?;
    let given = config.node_connection_info.clone().unwrap_or_default();
    // Only what is to be known of every node counts here; the address stands for any.
    let (host, port) = (String::new(), 0);
    let addr = match given.tls_mode {
        Some(mode) => {
            let insecure = matches!(mode, deadpool_redis::sentinel::TlsMode::Insecure);
            ConnectionAddr::TcpTls { host, port, insecure, tls_params: None }
        }
        None => ConnectionAddr::Tcp(host, port),
    };
    let node =
        addr.into_connection_info().map_err(|_| ConnectError::config("the settings of the nodes are not usable"))?;
    let node = node.set_redis_settings(given.redis_connection_info.unwrap_or_default().into());
    Ok(Topology::Sentinel {
        sentinels,
        primary: config.master_name.clone(),
        node: super::topology::NodeSettings::like(node),
    })
}

/// The entries of a configuration that lists several servers; at least one.
fn places(
    urls: Option<&[String]>,
    connections: Option<&[deadpool_redis::ConnectionInfo]>,
) -> Result<Vec<ConnectionInfo>, ConnectError> {
    let places = match (urls, connections) {
        (Some(urls), None) => urls
            .iter()
            .map(|url| {
                let Topology::Single(info) = url::parse(url)? else {
                    return Err(ConnectError::config("each entry of `urls` names one server: `redis://host:port`"));
                };
                Ok(info)
            })
            .collect::<Result<Vec<_>, _>>()?,
        (None, Some(connections)) => connections.iter().cloned().map(Into::into).collect(),
        (None, None) => vec![deadpool_redis::ConnectionInfo::default().into()],
        (Some(_), Some(_)) => return Err(both("urls", "connections")),
    };
    if places.is_empty() { Err(ConnectError::config("it names no server")) } else { Ok(places) }
}

fn both(one: &str, other: &str) -> ConnectError {
    ConnectError::Config { reason: format!("both `{one}` and `{other}` are given: leave one out") }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl From<&str> for Source {
    fn from(url: &str) -> Self {
        deadpool_redis::Config::from_url(url).into()
    }
}

impl From<String> for Source {
    fn from(url: String) -> Self {
        deadpool_redis::Config::from_url(url).into()
    }
}

impl From<&String> for Source {
    fn from(url: &String) -> Self {
        url.as_str().into()
    }
}

impl From<deadpool_redis::Config> for Source {
    fn from(config: deadpool_redis::Config) -> Self {
        Self(Kind::Config(Box::new(config)))
    }
}

impl From<(deadpool_redis::Pool, Client)> for Source {
    fn from((pool, client): (deadpool_redis::Pool, Client)) -> Self {
        Self(Kind::Pool(pool, Box::new(client)))
    }
}

impl From<deadpool_redis::sentinel::Config> for Source {
    fn from(config: deadpool_redis::sentinel::Config) -> Self {
        Self(Kind::Sentinel(Box::new(config)))
    }
}

impl From<deadpool_redis::cluster::Config> for Source {
    fn from(config: deadpool_redis::cluster::Config) -> Self {
        Self(Kind::Cluster(Box::new(config)))
    }
}
