use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::{cache::store::SILENCE, clock::Instant};

/// Up to when a subscription has heard every invalidation.
#[derive(Debug, Default)]
pub(in crate::cache::store) struct Liveness {
    open: AtomicBool,
    /// When the last message came, in nanoseconds of [`Instant`].
    heard: AtomicU64,
    /// When the latest command that has its reply was sent, in nanoseconds of [`Instant`]. The reply came after every
    /// message that was published before the command arrived, so all messages not heard yet are younger than this.
    proven: AtomicU64,
}

impl Liveness {
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether the channel is heard, and every invalidation older than [`SILENCE`] has been.
    ///
    /// That messages come does not prove the second: on a connection that lags they keep coming, each too late.
    pub(in crate::cache::store) fn is_live(&self, now: Instant) -> bool {
        self.is_open() && now.since(self.heard()) < SILENCE && now.since(self.proven()) < SILENCE
    }

    /// The time up to which every invalidation has been heard. It is the present while the subscription is live.
    pub(in crate::cache::store) fn live_until(&self) -> Instant {
        let now = Instant::now();
        if self.is_live(now) { now } else { self.heard().min(self.proven()) }
    }

    /// Whether the subscription is open and no message came for [`SILENCE`].
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.is_open() && now.since(self.heard()) >= SILENCE
    }

    pub(super) fn message_came(&self, now: Instant) {
        self.heard.store(now.as_nanos(), Ordering::Release);
    }

    /// Notes that a command that was sent at this time has its reply, on the connection that carries the messages.
    pub(super) fn answered(&self, sent: Instant) {
        self.proven.fetch_max(sent.as_nanos(), Ordering::AcqRel);
    }

    /// The time since the latest command was sent that has its reply.
    pub(super) fn since_proof(&self, now: Instant) -> Duration {
        now.since(self.proven())
    }

    /// Notes that the subscription is open. The in-process tier must be empty: nothing in it is older than `now`.
    pub(super) fn opened(&self, now: Instant) {
        self.message_came(now);
        self.answered(now);
        self.open.store(true, Ordering::Release);
    }

    pub(super) fn closed(&self) {
        self.open.store(false, Ordering::Release);
    }

    fn proven(&self) -> Instant {
        Instant::from_nanos(self.proven.load(Ordering::Acquire))
    }

    fn heard(&self) -> Instant {
        Instant::from_nanos(self.heard.load(Ordering::Acquire))
    }
}
