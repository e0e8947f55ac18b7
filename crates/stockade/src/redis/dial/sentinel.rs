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

    /// Asks all sentinels at once, waits for a majority, and believes the answer with the latest failover. The first
    /// answer alone is not enough: that sentinel may be cut off from the others together with the old primary.
    pub(super) async fn look(&self) -> Result<Address, LookError> {
        let majority = self.places.len() / 2 + 1;
        let mut asked: FuturesUnordered<_> = self.places.iter().map(|place| self.ask_once(place)).collect();
        let (mut answers, mut refusal) = (Vec::new(), LookError::Silence);
        while answers.len() < majority
            && let Some(answer) = asked.next().await
        {
            match answer {
                Ok(address) => answers.push(address),
                Err(error) if refusal.is_final() || matches!(error, LookError::Silence) => {}
                Err(error) => refusal = error,
            }
        }
        let Some(newest) = answers.iter().max_by_key(|address| address.epoch) else { return Err(refusal) };
        if answers.iter().any(|other| other.epoch == newest.epoch && !other.same_place(newest)) {
            return Err(LookError::Disagreement);
        }
        let known = self.known.borrow().as_ref().map_or(0, |known| known.epoch);
        // The epochs of a majority may start again from zero, for instance when all sentinels were set up anew.
        if newest.epoch < known && answers.len() < majority {
            return Err(LookError::Outdated);
        }
        self.known.send_if_modified(|known| known.replace(newest.clone()).as_ref() != Some(newest));
        Ok(newest.clone())
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
            self.heard(answer);
            tokio::select! {
                () = told.notified() => {}
                () = sleep(ASK_AGAIN) => {}
                () = ended.cancelled() => return Ok(()),
            }
        }
    }

    /// A single sentinel that reports a later failover is believed, because a failover takes a majority of them.
    fn heard(&self, address: Address) {
        self.known.send_if_modified(|known| match known {
            Some(known) if address.epoch <= known.epoch => false,
            _ => {
                *known = Some(address);
                true
            }
        });
    }
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
