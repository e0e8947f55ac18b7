use std::time::Duration;

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use redis::{ConnectionInfo, RedisError, Value, aio::MultiplexedConnection};
use tokio::{sync::watch, time::timeout};

use super::address::{Address, agreed, latest};
use crate::redis::{
    address::Topology,
    dial::{
        connect::{self, PushFn},
        handshake_error::HandshakeError,
        look_error::LookError,
    },
};

/// How long one sentinel may take to answer, connection included.
pub(super) const ANSWER: Duration = Duration::from_millis(500);

/// The sentinels of one primary.
pub(in crate::redis::dial) struct Sentinels {
    pub(super) places: Vec<ConnectionInfo>,
    name: String,
    /// The latest known primary.
    pub(super) known: watch::Sender<Option<Address>>,
}

impl Sentinels {
    pub(in crate::redis::dial) fn of(topology: &Topology) -> Option<Self> {
        let Topology::Sentinel { sentinels, primary, .. } = topology else { return None };
        Some(Self { places: sentinels.clone(), name: primary.clone(), known: watch::Sender::new(None) })
    }

    /// The address of the latest known primary, for people.
    pub(in crate::redis::dial) fn primary(&self) -> Option<String> {
        self.known.borrow().as_ref().map(|known| format!("{}:{}", known.host, known.port))
    }

    fn majority(&self) -> usize {
        self.places.len() / 2 + 1
    }

    /// Asks all sentinels at once, and believes the answer with the latest failover. Waits for a majority: the first
    /// sentinel alone may be cut off from the others together with the old primary. Waits for the others too while
    /// sentinels contradict one another: one of them may know the same server by another name.
    pub(in crate::redis::dial) async fn look(&self) -> Result<Address, LookError> {
        let majority = self.majority();
        let mut asked: FuturesUnordered<_> = self.places.iter().map(|place| self.ask_once(place)).collect();
        let (mut answers, mut refusal) = (Vec::new(), LookError::Silence);
        while (answers.len() < majority || latest(&answers).is_none())
            && let Some(answer) = asked.next().await
        {
            match answer {
                Ok(address) => answers.push(address),
                Err(error) if refusal.is_final() || matches!(error, LookError::Silence) => {}
                Err(error) => refusal = error,
            }
        }
        if answers.is_empty() {
            return Err(refusal);
        }
        let found = latest(&answers).or_else(|| agreed(&answers, majority)).ok_or(LookError::Disagreement)?;
        Ok(self.later(found))
    }

    /// Returns the primary of the later failover: the one that was found, or the one that is known. The known one was
    /// announced by one sentinel, and the others hear of it a moment later. Until then their majority is no reason to
    /// go back. Sentinels that were set up again count failovers from zero; [`reconsider`](Self::reconsider) notices
    /// that.
    fn later(&self, found: &Address) -> Address {
        let mut later = found.clone();
        self.known.send_if_modified(|known| match known {
            Some(known) if found.epoch < known.epoch && !found.same_place(known) => {
                later = known.clone();
                false
            }
            known => known.replace(found.clone()).as_ref() != Some(found),
        });
        later
    }

    async fn ask_once(&self, place: &ConnectionInfo) -> Result<Address, LookError> {
        let answer = async {
            let mut connection = dial(place, None).await?;
            self.ask(&mut connection).await
        };
        timeout(ANSWER, answer).await.unwrap_or(Err(LookError::Silence))
    }

    /// Asks for the epoch first and then for the address. The sentinel that leads a failover raises the epoch a moment
    /// before both commands name the new primary. In this order, an old address never comes with a new epoch.
    pub(super) async fn ask(&self, connection: &mut MultiplexedConnection) -> Result<Address, LookError> {
        let unknown = || LookError::Unknown { name: self.name.clone() };
        let mut pipeline = redis::pipe();
        pipeline.cmd("SENTINEL").arg("MASTER").arg(&self.name);
        pipeline.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let (about, address): (Value, Option<(String, u16)>) = match pipeline.query_async(connection).await {
            Ok(answer) => answer,
            Err(error) if error.to_string().contains("No such master") => return Err(unknown()),
            Err(error) if error.to_string().contains("unknown command") => return Err(LookError::NoSentinel),
            Err(error) => return Err(refused(&error)),
        };
        let about: std::collections::HashMap<String, String> =
            redis::from_redis_value(about).map_err(|_| LookError::Refused { reason: "unexpected reply".to_owned() })?;
        let (host, port) = address.ok_or_else(unknown)?;
        let epoch = about.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        Ok(Address { host, port, epoch })
    }

    /// Returns once another server is known as the primary.
    pub(in crate::redis::dial) async fn moved_from(&self, primary: &Address) {
        let elsewhere = |known: &Option<Address>| known.as_ref().is_some_and(|known| !known.same_place(primary));
        // The sender lives as long as `self`, so this never fails.
        let _ = self.known.subscribe().wait_for(elsewhere).await;
    }

    /// Returns once a newer primary is known.
    pub(in crate::redis::dial) async fn news(&self) {
        let _ = self.known.subscribe().changed().await;
    }

    /// Asks all sentinels, and waits for each of them.
    pub(super) async fn agreed(&self) -> Option<Address> {
        let answers = join_all(self.places.iter().map(|place| self.ask_once(place))).await;
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        agreed(&answers, self.majority()).cloned()
    }
}

pub(super) async fn dial(place: &ConnectionInfo, push: Option<PushFn>) -> Result<MultiplexedConnection, LookError> {
    connect::dial(place, push).await.map_err(|error| match error {
        HandshakeError::Credentials => LookError::Credentials,
        HandshakeError::Redis(error) => refused(&error),
        HandshakeError::HungUp => LookError::HungUp,
        HandshakeError::Tls(reason) => LookError::Tls(reason),
        error => LookError::Refused { reason: error.to_string() },
    })
}

pub(super) fn refused(error: &RedisError) -> LookError {
    if error.is_io_error() { LookError::Silence } else { LookError::Refused { reason: error.to_string() } }
}

#[cfg(test)]
mod tests {
    use super::{super::address::tests::at, *};

    #[test]
    fn a_majority_that_has_not_heard_of_an_announced_failover_takes_nobody_back() {
        let sentinels = Sentinels { places: Vec::new(), name: "x".to_owned(), known: watch::Sender::new(None) };
        let (old, new) = (at("old", 4), at("new", 5));
        assert_eq!(sentinels.later(&old), old);
        assert!(!sentinels.heard(new.clone()));
        assert_eq!(sentinels.later(&old), new);
        assert_eq!(
            sentinels.later(&at("new", 0)),
            at("new", 0),
            "the address did not change, so the known epoch must not win"
        );
        assert_eq!(sentinels.later(&at("newest", 1)), at("newest", 1));
    }
}
