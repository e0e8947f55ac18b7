//! Asks the sentinels where the primary is, and listens for failovers.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use redis::{ConnectionInfo, PushKind, RedisError, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    backoff::Backoff,
    connect::{self, PushFn},
    handshake_error::HandshakeError,
    look_error::LookError,
};
use crate::redis::address::Topology;

/// How long one sentinel may take to answer, connection included.
const ANSWER: Duration = Duration::from_millis(500);
/// How often a sentinel that announces nothing is asked. An announcement is sent once, only to the clients connected at
/// that moment. A sentinel that was cut off learns of a failover without announcing it.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// The pause between two rounds of questions, if sentinels contradict what is known. Sentinels tell one another of a
/// failover within two seconds. Until then some of them name the old primary.
const SECOND_ROUND: Duration = Duration::from_secs(3);
/// The announcements of a new primary. The sentinel that leads the failover sends the first one, a little earlier.
const ANNOUNCEMENTS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// The primary, in the words of a sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    /// Grows with every failover that a majority of the sentinels has agreed to.
    epoch: u64,
}

impl Address {
    fn same_place(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

/// The sentinels of one primary.
pub(super) struct Sentinels {
    places: Vec<ConnectionInfo>,
    name: String,
    /// The latest known primary.
    known: watch::Sender<Option<Address>>,
}

impl Sentinels {
    pub(super) fn of(topology: &Topology) -> Option<Self> {
        let Topology::Sentinel { sentinels, primary, .. } = topology else { return None };
        Some(Self { places: sentinels.clone(), name: primary.clone(), known: watch::Sender::new(None) })
    }

    fn majority(&self) -> usize {
        self.places.len() / 2 + 1
    }

    /// Asks all sentinels at once, and believes the answer with the latest failover. Waits for a majority: the first
    /// sentinel alone may be cut off from the others together with the old primary. Waits for the others too while
    /// sentinels contradict one another: one of them may know the same server by another name.
    pub(super) async fn look(&self) -> Result<Address, LookError> {
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
    async fn ask(&self, connection: &mut MultiplexedConnection) -> Result<Address, LookError> {
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
    pub(super) async fn moved_from(&self, primary: &Address) {
        let elsewhere = |known: &Option<Address>| known.as_ref().is_some_and(|known| !known.same_place(primary));
        // The sender lives as long as `self`, so this never fails.
        let _ = self.known.subscribe().wait_for(elsewhere).await;
    }

    /// Returns once a newer primary is known.
    pub(super) async fn news(&self) {
        let _ = self.known.subscribe().changed().await;
    }

    /// Listens to every sentinel, for as long as it is polled: the only sentinel that can be reached may be any of
    /// them.
    pub(super) async fn watch(&self) {
        join_all(self.places.iter().map(|place| self.follow(place))).await;
    }

    async fn follow(&self, place: &ConnectionInfo) {
        let mut backoff = Backoff::new();
        loop {
            if let Err(error) = self.listen(place, &mut backoff).await {
                tracing::debug!(sentinel = %place.addr(), %error, "a sentinel can't be listened to");
            }
            sleep(backoff.next()).await;
        }
    }

    async fn listen(&self, place: &ConnectionInfo, backoff: &mut Backoff) -> Result<(), LookError> {
        let (told, ended) = (Arc::new(Notify::new()), CancellationToken::new());
        let push: PushFn = {
            let (told, ended) = (Arc::clone(&told), ended.clone());
            Box::new(move |push| match push.kind {
                PushKind::Message => told.notify_one(),
                PushKind::Disconnection => ended.cancel(),
                _ => {}
            })
        };
        let subscribed = async {
            let mut connection = dial(place, Some(push)).await?;
            connection.subscribe(&ANNOUNCEMENTS[..]).await.map_err(|error| refused(&error))?;
            Ok(connection)
        };
        let mut connection = timeout(ANSWER, subscribed).await.unwrap_or(Err(LookError::Silence))?;
        backoff.reset();
        loop {
            // An announcement is not believed; the sentinel is asked instead. A name may only resemble that of this
            // primary, and a message may be old.
            let answer = timeout(ANSWER, self.ask(&mut connection)).await.unwrap_or(Err(LookError::Silence))?;
            if self.heard(answer) {
                self.reconsider().await;
            }
            tokio::select! {
                () = told.notified() => {}
                () = sleep(ASK_AGAIN) => {}
                () = ended.cancelled() => return Ok(()),
            }
        }
    }

    /// A single sentinel that reports a later failover is believed, because a failover takes a majority of them.
    /// Returns whether the sentinel names another primary without a later failover.
    fn heard(&self, address: Address) -> bool {
        let mut contradicts = false;
        self.known.send_if_modified(|known| match known {
            Some(known) if address.epoch <= known.epoch => {
                contradicts = !address.same_place(known);
                false
            }
            _ => {
                *known = Some(address);
                true
            }
        });
        contradicts
    }

    /// Believes what the sentinels agree on in two rounds of questions, although they report no later failover: they
    /// were told to watch another server, or were set up again. One round alone may happen during a failover.
    async fn reconsider(&self) {
        let before = self.known.borrow().clone();
        let Some(first) = self.agreed().await else { return };
        if before.as_ref().is_some_and(|before| before.same_place(&first)) {
            return;
        }
        sleep(SECOND_ROUND).await;
        let Some(second) = self.agreed().await.filter(|second| second.same_place(&first)) else { return };
        self.known.send_if_modified(|known| {
            let is_news = *known == before;
            if is_news {
                *known = Some(second);
            }
            is_news
        });
    }

    /// Asks all sentinels, and waits for each of them.
    async fn agreed(&self) -> Option<Address> {
        let answers = join_all(self.places.iter().map(|place| self.ask_once(place))).await;
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        agreed(&answers, self.majority()).cloned()
    }
}

/// The primary of the latest failover. `None` if sentinels name different ones.
fn latest(answers: &[Address]) -> Option<&Address> {
    let latest = answers.iter().max_by_key(|address| address.epoch)?;
    let is_same = |other: &Address| other.epoch < latest.epoch || other.same_place(latest);
    answers.iter().all(is_same).then_some(latest)
}

/// The primary that a majority names, unless one sentinel alone knows of a later failover.
fn agreed(answers: &[Address], majority: usize) -> Option<&Address> {
    let latest = answers.iter().map(|address| address.epoch).max()?;
    let is_agreed = |address: &&Address| answers.iter().filter(|other| other.same_place(address)).count() >= majority;
    answers.iter().filter(|address| address.epoch == latest).find(is_agreed)
}

async fn dial(place: &ConnectionInfo, push: Option<PushFn>) -> Result<MultiplexedConnection, LookError> {
    connect::dial(place, push).await.map_err(|error| match error {
        HandshakeError::Credentials => LookError::Credentials,
        HandshakeError::Redis(error) => refused(&error),
        HandshakeError::HungUp => LookError::HungUp,
        HandshakeError::Tls(reason) => LookError::Tls(reason),
        error => LookError::Refused { reason: error.to_string() },
    })
}

fn refused(error: &RedisError) -> LookError {
    if error.is_io_error() { LookError::Silence } else { LookError::Refused { reason: error.to_string() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, epoch: u64) -> Address {
        Address { host: host.to_owned(), port: 6379, epoch }
    }

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

    #[test]
    fn sentinels_contradict_one_another_only_about_the_latest_failover() {
        assert_eq!(latest(&[at("old", 4), at("new", 5)]), Some(&at("new", 5)));
        assert_eq!(latest(&[at("new", 5), at("other", 5), at("old", 4)]), None);
        assert_eq!(latest(&[]), None);
    }

    #[test]
    fn a_majority_that_does_not_know_of_the_last_failover_agrees_on_nothing() {
        let (old, new) = (at("old", 4), at("new", 5));
        let agreed = |answers: &[&Address]| {
            let answers: Vec<_> = answers.iter().copied().cloned().collect();
            agreed(&answers, 2).cloned()
        };
        assert_eq!(agreed(&[&old, &old, &new]), None, "two have not heard of it yet");
        assert_eq!(agreed(&[&old, &new, &new]), Some(new.clone()));
        assert_eq!(agreed(&[&old, &old]), Some(old.clone()));
        assert_eq!(agreed(&[&new]), None, "a minority");
        let watched = at("new", 4);
        assert_eq!(agreed(&[&watched, &old, &watched]), Some(watched), "no failover was made");
    }
}
