use std::{fmt, time::Duration};

use redis::{ConnectionAddr, RedisConnectionInfo};
use redis::{
    ConnectionInfo, ProtocolVersion,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};

use super::kind::Expected;

pub(in crate::redis) enum Topology {
    /// One server, always the same.
    Single(ConnectionInfo),
    /// A primary whose address sentinels know.
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        /// The name under which the sentinels watch it.
        primary: String,
        node: NodeSettings,
    },
    /// A cluster, given by some of its nodes. They know the others.
    Cluster { seeds: Vec<ConnectionInfo>, node: NodeSettings },
}

/// How to log in to a server whose address another server tells.
#[derive(Clone)]
pub(in crate::redis) struct NodeSettings(ConnectionInfo);

impl NodeSettings {
    /// The settings of a connection to any node. The address in it only says whether to use TLS.
    pub(in crate::redis) fn like(template: ConnectionInfo) -> Self {
        Self(template)
    }

    pub(in crate::redis) fn at(&self, host: &str, port: u16) -> ConnectionInfo {
        let host = host.to_owned();
        let addr = match self.0.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.0.clone().set_addr(addr)
    }

    pub(in crate::redis) fn redis_settings(&self) -> &RedisConnectionInfo {
        self.0.redis_settings()
    }

    pub(in crate::redis) fn is_tls(&self) -> bool {
        matches!(self.0.addr(), ConnectionAddr::TcpTls { .. })
    }
}

impl Topology {
    pub(in crate::redis) fn expected(&self) -> Expected {
        match self {
            Self::Single(_) | Self::Sentinel { .. } => Expected::Single,
            Self::Cluster { .. } => Expected::Node,
        }
    }

    /// The same places, with `change` applied to every connection.
    pub(in crate::redis) fn map<E>(
        self,
        mut change: impl FnMut(ConnectionInfo) -> Result<ConnectionInfo, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Self::Single(info) => Self::Single(change(info)?),
            Self::Sentinel { sentinels, primary, node } => {
                let node = NodeSettings(change(node.0)?);
                Self::Sentinel {
                    sentinels: sentinels.into_iter().map(change).collect::<Result<_, E>>()?,
                    primary,
                    node,
                }
            }
            Self::Cluster { seeds, node } => {
                let node = NodeSettings(change(node.0)?);
                Self::Cluster { seeds: seeds.into_iter().map(change).collect::<Result<_, E>>()?, node }
            }
        })
    }

    /// RESP3, so that pushes and replies share one connection. Keep-alive and a limit for unacknowledged data, because
    /// a peer that vanished silently would otherwise be noticed only after minutes.
    pub(in crate::redis) fn with_link_settings(self) -> Self {
        let changed = self.map(|info| {
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            let keepalive = TcpKeepalive::new()
                .with_time(Duration::from_secs(5))
                .with_interval(Duration::from_secs(2))
                .with_retries(3);
            let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
            #[cfg(target_os = "linux")]
            let tcp = tcp.set_user_timeout(Duration::from_secs(10));
            Ok::<_, std::convert::Infallible>(info.set_redis_settings(settings).set_tcp_settings(tcp))
        });
        match changed {
            Ok(changed) => changed,
            Err(never) => match never {},
        }
    }
}

/// The places, without users and passwords.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(info) => write!(f, "{}/{}", info.addr(), info.redis_settings().db()),
            Self::Sentinel { sentinels, primary, node } => {
                write!(f, "{primary}/{} by sentinels ", node.redis_settings().db())?;
                list(f, sentinels)
            }
            Self::Cluster { seeds, .. } => {
                f.write_str("cluster of ")?;
                list(f, seeds)
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, places: &[ConnectionInfo]) -> fmt::Result {
    for (number, place) in places.iter().enumerate() {
        if number > 0 {
            f.write_str(",")?;
        }
        write!(f, "{}", place.addr())?;
    }
    Ok(())
}
