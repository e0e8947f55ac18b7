//! A primary that was replaced and does not know it goes on answering reads. With `min-replicas-to-write` it stops taking
//! writes, so that a write on the connection of the reads tells the two apart.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::Cmd;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{keys::Keys, subscription::Subscription};
use crate::{
    clock::Instant,
    redis::{Link, LinkError, Succession},
};

const EVERY: Duration = Duration::from_millis(500);
/// How long a write that was taken stands for the server, from when it was sent. Three may be lost meanwhile.
const GOOD_FOR: Duration = Duration::from_secs(2);
/// After so many writes it is asked again whether it would refuse them: that can be set while it runs.
const LOOK_EVERY: u32 = 10;

/// Whether the primary at the other end takes writes.
#[derive(Debug, Default)]
pub(super) struct Pulse(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of the connection that the rest is about.
    connection: u64,
    succession: Succession,
    /// Whether it is worth another look what the server does when it is replaced.
    is_wanted: bool,
    /// When the latest write was sent that was taken.
    taken: Option<Instant>,
    /// Whether it was said that reads are loads for this.
    told: bool,
}

impl Pulse {
    /// A new connection, on which nothing was written yet.
    pub(super) fn begin(&self, connection: u64, succession: Succession) {
        let mut state = self.lock();
        let (is_wanted, told) = (succession != Succession::Never, state.told);
        *state = State { connection, succession, is_wanted, taken: None, told };
    }

    /// Whether another server may be made the primary while this one runs.
    pub(super) fn is_wanted(&self) -> bool {
        self.lock().is_wanted
    }

    /// A write that was sent on this connection, or a later one, was taken.
    pub(super) fn taken(&self, connection: u64, sent: Instant) {
        let mut state = self.lock();
        if state.connection == connection {
            state.taken = state.taken.max(Some(sent));
            state.told = false;
        }
    }

    /// Whether what is read on this connection, up to now, comes from a server that nobody had replaced a moment ago.
    pub(super) fn stands(&self, connection: u64) -> bool {
        let state = self.lock();
        state.connection == connection
            && match state.succession {
                Succession::Never => true,
                Succession::Bounded => state.taken.is_some_and(|sent| sent.elapsed() < GOOD_FOR),
                Succession::Unbounded => false,
            }
    }

    fn looked(&self, connection: u64, succession: Succession) {
        let mut state = self.lock();
        if state.connection == connection {
            state.succession = succession;
        }
    }

    /// The connection that a pulse is to be asked for on.
    fn wanted(&self) -> Option<(u64, Succession)> {
        let state = self.lock();
        state.is_wanted.then_some((state.connection, state.succession))
    }

    /// Whether somebody is to be told; once, until writes are taken again.
    fn tells(&self) -> bool {
        !std::mem::replace(&mut self.lock().told, true)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write that changes nothing, and that a server without memory takes.
pub(super) fn write(keys: &Keys) -> Cmd {
    let mut command = redis::cmd("DEL");
    command.arg(keys.pulse());
    command
}

/// Writes every half second where another server may be made the primary, until told to stop.
pub(super) async fn keep<V: Send + Sync + 'static>(
    link: Link,
    subscription: Arc<Subscription<V>>,
    has_sentinels: bool,
    stop: CancellationToken,
) {
    let mut turn = 0_u32;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(EVERY) => {}
        }
        let Some((connection, succession)) = subscription.pulse.wanted().filter(|_| link.is_up()) else { continue };
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(LOOK_EVERY) {
            let mut question = redis::cmd("INFO");
            question.arg("replication");
            let info = link.command("cache_replication", question).await.ok();
            if let Some(info) = info.and_then(|info| redis::from_redis_value::<String>(info).ok()) {
                subscription.pulse.looked(connection, Succession::of(&info, has_sentinels));
            }
        }
        match succession {
            Succession::Bounded => beat(&link, &subscription, connection).await,
            Succession::Unbounded if subscription.pulse.tells() => tracing::warn!(
                "this Redis goes on answering after another server took its place, so a strict cache believes nothing of it: set \
                 `min-replicas-to-write` (half the number of replicas or more) and `min-replicas-max-lag` (10 or less) on every \
                 Redis behind the sentinels"
            ),
            Succession::Unbounded | Succession::Never => {}
        }
    }
}

async fn beat<V: Send + Sync + 'static>(link: &Link, subscription: &Subscription<V>, connection: u64) {
    let sent = Instant::now();
    match link.command("cache_pulse", write(&subscription.keys)).await {
        Ok(_) => subscription.pulse.taken(connection, sent),
        Err(LinkError::Refused { code }) if subscription.pulse.tells() => tracing::warn!(
            code,
            "Redis takes no writes, so another server may have taken its place: a strict cache loads every read until it does. \
             With NOREPLICAS fewer replicas follow it than `min-replicas-to-write` says"
        ),
        Err(error) => tracing::debug!(%error, "nothing shows that Redis takes writes"),
    }
}
