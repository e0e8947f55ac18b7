use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{keys::Names, mark::Mark, replies::Taken, scripts::ACQUIRE};
use crate::{
    clock::Instant,
    redis::{Link, LinkError, ServerClock},
    store::{
        Owner, Token,
        redis::parts::{Sent, millis},
    },
};

/// How far a stamp may be ahead of the server's clock. `stamp.lua` refuses a command whose stamp is further ahead.
const AHEAD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Node {
    pub(super) link: Link,
    pub(super) clock: ServerClock,
    /// How many runs of the server the link has met.
    run: AtomicU64,
}

/// A request to take the lock on one server.
pub(super) struct Taking<'a> {
    pub(super) names: &'a Names,
    pub(super) value: &'a Owner,
    pub(super) lease: Duration,
    pub(super) token: Token,
}

impl Node {
    pub(super) fn new(link: Link) -> Self {
        Self { link, clock: ServerClock::default(), run: AtomicU64::new(0) }
    }

    /// Called when the link meets a new run of the server. The new run may have another clock.
    pub(super) fn begin_run(&self) {
        self.run.fetch_add(1, Ordering::AcqRel);
        self.clock.forget();
    }

    pub(super) fn run(&self) -> u64 {
        self.run.load(Ordering::Acquire)
    }

    /// Asks the server for the lock. The command has its place in the write order of the connection when this returns.
    ///
    /// `before` is what earlier requests under this value may have left on the server.
    pub(super) fn take(
        &self,
        taking: &Taking<'_>,
        before: Mark,
    ) -> (Mark, impl Future<Output = Result<Taken, LinkError>> + Send + 'static + use<>) {
        let Taking { names, value, lease, token } = taking;
        let keys = vec![names.lock.clone(), names.floor.clone()];
        let args = vec![
            self.clock.stamp().to_string().into_bytes(),
            millis(self.stale_after()),
            value.as_str().into(),
            millis(*lease),
            token.to_string().into_bytes(),
        ];
        let (run, generation, at) = (self.run(), self.link.generation(), Instant::now());
        let reply = self.link.call_at_once(&ACQUIRE, keys, args);
        // If the link reconnected during the call, either connection may carry the command.
        let generation = (self.link.generation() == generation).then_some(generation);
        let forgotten = self.settled(at) + *lease + Duration::from_secs(1);
        let sent = Sent::new(at, generation, forgotten, before.sent.map(|sent| (sent, before.answered)));
        (Mark { sent: Some(sent), answered: false, run }, async move { Taken::read(&reply.await?) })
    }

    fn stale_after(&self) -> Duration {
        self.link.timeout() * 2
    }

    /// The time from which the server refuses a command that was sent at `at` as stale, even if its stamp was as far
    /// ahead as allowed.
    pub(super) fn settled(&self, at: Instant) -> Instant {
        at + self.stale_after() + AHEAD
    }
}
