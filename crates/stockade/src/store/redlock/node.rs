use std::{
    sync::{
        Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, try_join_all};

use super::{inner::Inner, keys::Names, replies::Taken, scripts::ACQUIRE, sent::Sent};
use crate::{
    clock::Instant,
    redis::{Handshake, Link, LinkError, LinkEvents, Up},
    store::{
        Owner, Token,
        redis::parts::{JOIN, SEED, ServerClock, joined, millis},
    },
};

/// How far ahead of the server a stamp may be, see the script.
const AHEAD: Duration = Duration::from_millis(100);

/// One of the servers.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) link: Link,
    pub(super) clock: ServerClock,
    /// Counts the runs of the server that the link has met.
    run: AtomicU64,
}

/// What one server may hold of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// The last sending that may have taken the lock there, or may yet; `None` when there is none.
    pub(super) sent: Option<Sent>,
    /// Whether it was answered.
    pub(super) answered: bool,
    /// The run of the server that was asked.
    pub(super) run: u64,
}

/// One question to take the lock on one server.
pub(super) struct Taking<'a> {
    pub(super) names: &'a Names,
    pub(super) value: &'a Owner,
    pub(super) lease: Duration,
    /// `None` takes the lock without a token.
    pub(super) token: Option<Token>,
}

impl Node {
    pub(super) fn new(link: Link) -> Self {
        Self { link, clock: ServerClock::default(), run: AtomicU64::new(0) }
    }

    pub(super) fn run(&self) -> u64 {
        self.run.load(Ordering::Acquire)
    }

    /// Asks to take the lock. The command has its place in the write order when this returns; `before` is what an
    /// earlier one left.
    pub(super) fn take(
        &self,
        taking: &Taking<'_>,
        before: Mark,
    ) -> (Mark, impl Future<Output = Result<Taken, LinkError>> + Send + 'static + use<>) {
        let Taking { names, value, lease, token } = taking;
        let keys = vec![names.lock.clone(), names.floor.clone()];
        let args = vec![
            value.as_str().into(),
            millis(*lease),
            self.clock.stamp().to_string().into_bytes(),
            millis(self.stale_after()),
            token.map_or(0, Token::get).to_string().into_bytes(),
        ];
        let (run, generation, at) = (self.run(), self.link.generation(), Instant::now());
        let reply = self.link.call_at_once(&ACQUIRE, keys, args);
        // The connection that carries it is known only if none was made meanwhile.
        let generation = (self.link.generation() == generation).then_some(generation);
        let forgotten = self.settled(at) + *lease + Duration::from_secs(1);
        let sent = Sent { at, generation, stray: None, forgotten };
        let sent = before.sent.map_or(sent, |earlier| sent.after(earlier, before.answered));
        (Mark { sent: Some(sent), answered: false, run }, async move { Taken::read(&reply.await?) })
    }

    fn stale_after(&self) -> Duration {
        self.link.timeout() * 2
    }

    /// From then on a command that was sent at `at` is refused as stale, also when its stamp was as far ahead as
    /// allowed.
    pub(super) fn settled(&self, at: Instant) -> Instant {
        at + self.stale_after() + AHEAD
    }
}

/// The store's side of one link. Doesn't keep the store: the link keeps this.
pub(super) struct Watch {
    pub(super) inner: Weak<Inner>,
    pub(super) node: usize,
}

impl LinkEvents for Watch {
    fn message(&self, _channel: &str, _payload: &[u8]) {}

    fn prepare<'a>(&'a self, up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async move {
            let inner = self.inner.upgrade().ok_or(LinkError::Down)?;
            let node = inner.nodes.get(self.node).ok_or(LinkError::Down)?;
            if !inner.servers.claim(self.node, &up.run_id) {
                tracing::error!("two of the servers for one lock are the same: a quorum of them proves nothing");
                return Err(LinkError::Refused { code: "the same server twice".to_owned() });
            }
            if up.new_run {
                node.run.fetch_add(1, Ordering::AcqRel);
                node.clock.forget();
                // All at once: one round trip for each could take longer than a handshake may.
                let (keys, handshake) = (&inner.keys, &*handshake);
                let seeds = inner.tokens.seen().into_iter().map(|(bucket, floor)| async move {
                    handshake.call(&SEED, &[keys.floor(bucket)], &[floor.to_string().into_bytes()]).await
                });
                try_join_all(seeds).await?;
            }
            let sent = Instant::now();
            let reply = handshake.call(&JOIN, &[inner.keys.marker()], &[up.run_id.as_bytes().to_vec()]).await?;
            node.clock.note(sent, joined(&reply)?.0);
            Ok(())
        })
    }

    fn opened(&self, up: &Up) {
        let Some(inner) = self.inner.upgrade() else { return };
        if up.new_run {
            inner.verify_all();
        }
    }

    fn closed(&self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.servers.leave(self.node);
        }
    }
}
