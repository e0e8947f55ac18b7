use std::fmt;

use redis::{Client, ConnectionInfo, IntoConnectionInfo};

use super::ConnectError;

/// Where Redis is: a URL, a `deadpool_redis::Config`, or a pool with the client it was made from.
///
/// A pool alone is not enough: the link needs connections of its own, which a pool's manager can't make.
pub struct Source(Kind);

enum Kind {
    Config(Box<deadpool_redis::Config>),
    Pool(deadpool_redis::Pool, Box<Client>),
}

impl Source {
    pub(super) fn into_parts(self) -> Result<(deadpool_redis::Pool, ConnectionInfo), ConnectError> {
        match self.0 {
            Kind::Config(config) => {
                let info = connection_info(&config)?;
                let pool = config
                    .create_pool(Some(deadpool_redis::Runtime::Tokio1))
                    .map_err(|_| invalid("no pool can be made of it: check the pool settings"))?;
                Ok((pool, info))
            }
            Kind::Pool(pool, client) => Ok((pool, client.get_connection_info().clone())),
        }
    }
}

fn connection_info(config: &deadpool_redis::Config) -> Result<ConnectionInfo, ConnectError> {
    match (&config.url, &config.connection) {
        // The parser's own error is left out, because it may quote the URL with its password.
        (Some(url), None) => url
            .as_str()
            .into_connection_info()
            .map_err(|_| invalid("the URL is not of the form `redis://[[user]:password@]host[:port][/database]`")),
        (None, Some(connection)) => Ok(connection.clone().into()),
        (None, None) => Ok(deadpool_redis::ConnectionInfo::default().into()),
        (Some(_), Some(_)) => Err(invalid("both `url` and `connection` are given: leave one out")),
    }
}

fn invalid(reason: &str) -> ConnectError {
    ConnectError::Config { reason: reason.to_owned() }
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
