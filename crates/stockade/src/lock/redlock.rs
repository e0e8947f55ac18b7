use std::sync::Arc;

use super::LocksBuilder;
use crate::{
    Locks, Redis,
    resource::Key,
    store::{KeyFormat, RedlockSettings, RedlockStore},
};

/// The fewest servers of which one may fail.
const FEWEST: usize = 3;

/// Settings of locks on several independent servers.
#[derive(Clone, Debug)]
#[must_use = "nothing is connected until built"]
pub struct RedlockBuilder {
    locks: LocksBuilder,
    servers: Vec<Redis>,
    settings: RedlockSettings,
}

/// Why servers can't form a quorum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedlockError {
    /// With one or two servers, the loss of any of them stops all locks.
    #[error("{given} servers survive no failure: give at least 3, or use locks on one Redis")]
    TooFew {
        /// How many were given.
        given: usize,
    },
    /// A cluster moves its locks between its nodes and fails over. So it counts as one place and not as independent
    /// servers.
    #[error("a cluster is not an independent server: give single servers, or use locks on the cluster")]
    Cluster,
    /// A server that counts twice takes the quorum with it when it fails.
    #[error(
        "the servers {first} and {second}, counted from 1, are the same: give each of several independent ones once"
    )]
    Same {
        /// Its first place, from 1.
        first: usize,
        /// The place where it is given again, from 1.
        second: usize,
    },
}

impl LocksBuilder {
    /// Locks on several independent servers, of which a minority may fail: Redlock. Usually three or five servers; an
    /// even number survives no more failures than one server less. Exclusive locks only, without a queue: a waiter asks
    /// again and again, after random pauses that grow from 10 ms to 200 ms.
    ///
    /// An attempt waits for the answers of a quorum for a tenth of its lease, at least 20 ms, and gives back a lock
    /// with less than half of the lease left. If it may wait, it asks up to three times before it fails with
    /// [`Unavailable::NoQuorum`](super::Unavailable::NoQuorum): the servers, or this process, may have been stopped
    /// for a moment.
    ///
    /// See [what these locks are good for](crate::lock#redlock), and what not.
    pub fn redlock(self, servers: impl IntoIterator<Item = Redis>) -> RedlockBuilder {
        RedlockBuilder { locks: self, servers: servers.into_iter().collect(), settings: RedlockSettings::default() }
    }
}

impl RedlockBuilder {
    /// The literal key of each resource, for instance `redlock:<name>`, to share locks with programs that use other
    /// names. Different resources must get different keys, and none may be within the namespace of the servers.
    /// Default: a name in the namespace of the first server.
    ///
    /// The value of such a key is what all these programs write: a random text with a time to live. Token floors stay
    /// in the namespace. Locks with names of their own can't be [listed](Locks::list).
    pub fn key_format(mut self, format: impl Fn(&Key) -> String + Send + Sync + 'static) -> Self {
        self.settings.key_format = Some(KeyFormat(Arc::new(format)));
        self
    }

    /// The first pair of servers that are known to be the same.
    fn same(&self) -> Option<(usize, usize)> {
        self.servers.iter().enumerate().find_map(|(second, server)| {
            Some((self.servers[..second].iter().position(|first| first.is_same_server(server))?, second))
        })
    }

    /// Starts connecting. An unreachable server is no error.
    ///
    /// # Errors
    ///
    /// [`RedlockError`]. Two servers are known to be the same by their address, or if [`Redis::connect`] found the same
    /// run at both. If one was not reached then, the duplicate is found later: the log says so, and it counts as a
    /// server that is down.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn build(self) -> Result<Locks, RedlockError> {
        if self.servers.len() < FEWEST {
            return Err(RedlockError::TooFew { given: self.servers.len() });
        }
        if self.servers.iter().any(Redis::is_cluster) {
            return Err(RedlockError::Cluster);
        }
        if let Some((first, second)) = self.same() {
            return Err(RedlockError::Same { first: first + 1, second: second + 1 });
        }
        Ok(self.locks.on(Arc::new(RedlockStore::open(&self.servers, self.settings))))
    }
}
