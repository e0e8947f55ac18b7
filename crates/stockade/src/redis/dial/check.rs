//! The checks of a server before anything uses it.

use std::{slice, sync::Arc};

use futures_util::future::join_all;
#[cfg(feature = "tls")]
use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::ConnectionInfo;
use tokio::time::timeout;
#[cfg(feature = "tls")]
use {std::time::Duration, tokio::time::sleep};

use super::{
    dialer::{Dialer, Opened, Place},
    handshake_error::HandshakeError,
};
use crate::redis::{
    ConnectError,
    address::{self, Topology},
};

/// How long a server may be silent before it is asked whether it speaks TLS at all. Shorter than the answer time of a
/// sentinel.
#[cfg(feature = "tls")]
const SLOW_TLS: Duration = Duration::from_millis(200);

impl Dialer {
    /// Connects, checks and closes, within the command time-out. Returns the name of the run of a single server.
    pub(in crate::redis) async fn check(&self) -> Result<Option<Arc<str>>, HandshakeError> {
        let checked = Box::pin(self.check_all());
        #[cfg(feature = "tls")]
        let checked = async {
            tokio::select! {
                checked = checked => checked,
                () = Box::pin(self.found_plain()) => Err(HandshakeError::Tls(address::NO_TLS.to_owned())),
            }
        };
        checked.await
    }

    async fn check_all(&self) -> Result<Option<Arc<str>>, HandshakeError> {
        match &self.topology {
            Topology::Single(info) => self.check_at(slice::from_ref(info), self.open(None)).await.map(Some),
            Topology::Sentinel { sentinels, .. } => match self.check_at(sentinels, self.open(None)).await {
                // A replica may be promoted before the first lock is asked for. The link checks again when it connects.
                Ok(_) | Err(HandshakeError::NotPrimary { .. }) => Ok(None),
                Err(error) => Err(error),
            },
            Topology::Cluster { seeds, .. } => self.check_seeds(seeds).await.map(|()| None),
        }
    }

    /// A seed that can't be reached, that is a replica, that is no node or that wants another password says nothing
    /// about the other seeds.
    async fn check_seeds(&self, seeds: &[ConnectionInfo]) -> Result<(), HandshakeError> {
        let check = |seed| self.check_at(slice::from_ref(seed), self.open_at(seed, None, Place::default()));
        let (mut has_node, mut worst) = (false, HandshakeError::Timeout);
        for checked in join_all(seeds.iter().map(check)).await {
            match checked {
                Ok(_) | Err(HandshakeError::NotPrimary { .. }) => has_node = true,
                Err(error @ (HandshakeError::Kind(_) | HandshakeError::Credentials)) => worst = error,
                Err(error) if error.is_final() => return Err(error),
                Err(_) if worst.is_final() => {}
                Err(error) => worst = error,
            }
        }
        if has_node { Ok(()) } else { Err(worst) }
    }

    /// A server that hangs up at once may be shutting down, or may want TLS. So it is asked whether it speaks TLS.
    async fn check_at(
        &self,
        places: &[ConnectionInfo],
        opening: impl Future<Output = Result<Opened, HandshakeError>>,
    ) -> Result<Arc<str>, HandshakeError> {
        let checked = async {
            match opening.await {
                Err(error) if error.is_hang_up() && address::is_wanted(places).await => {
                    Err(HandshakeError::Tls(address::ONLY_TLS.to_owned()))
                }
                opened => Ok(opened?.run_id),
            }
        };
        timeout(self.timeout, checked).await.unwrap_or(Err(HandshakeError::Timeout))
    }

    /// The refusal for an error that waiting can't mend; `None` if waiting may mend it.
    pub(in crate::redis) fn refusal(&self, error: &HandshakeError) -> Option<ConnectError> {
        match error {
            // Nobody is known to promote a single replica. Behind sentinels and in a cluster, somebody may.
            HandshakeError::NotPrimary { primary } if matches!(self.topology, Topology::Single(_)) => {
                Some(ConnectError::Replica { primary: primary.clone() })
            }
            error => error.refusal(),
        }
    }

    /// Returns when a server at a TLS address has been silent for a while and then answered without TLS.
    #[cfg(feature = "tls")]
    async fn found_plain(&self) {
        sleep(SLOW_TLS.min(self.timeout / 2)).await;
        let places = match &self.topology {
            Topology::Single(info) => slice::from_ref(info),
            Topology::Sentinel { sentinels, .. } => sentinels,
            Topology::Cluster { seeds, .. } => seeds,
        };
        let mut asked: FuturesUnordered<_> = places.iter().map(|place| address::is_plain(place.addr())).collect();
        while let Some(plain) = asked.next().await {
            if plain {
                return;
            }
        }
        std::future::pending().await
    }
}
