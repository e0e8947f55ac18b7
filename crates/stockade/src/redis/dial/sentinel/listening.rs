use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use redis::{ConnectionInfo, PushKind};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    address::Address,
    sentinels::{ANSWER, Sentinels, dial, refused},
};
use crate::redis::dial::{backoff::Backoff, connect::PushFn, look_error::LookError};

/// How often a sentinel that announces nothing is asked. An announcement is sent once, only to the clients connected at
/// that moment. A sentinel that was cut off learns of a failover without announcing it.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// The pause between two rounds of questions, if sentinels contradict what is known. Sentinels tell one another of a
/// failover within two seconds. Until then some of them name the old primary.
const SECOND_ROUND: Duration = Duration::from_secs(3);
/// The announcements of a new primary. The sentinel that leads the failover sends the first one, a little earlier.
const ANNOUNCEMENTS: [&str; 2] = ["+promoted-slave", "+switch-master"];

impl Sentinels {
    /// Listens to every sentinel, for as long as it is polled: the only sentinel that can be reached may be any of
    /// them.
    pub(in crate::redis::dial) async fn watch(&self) {
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
    pub(super) fn heard(&self, address: Address) -> bool {
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
}
