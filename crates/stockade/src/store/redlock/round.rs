use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::sleep;

use super::{inner::Inner, keys::Names, mark::Mark, node::Taking, replies::Taken, scripts::FENCE};
use crate::{
    clock::Instant,
    redis::{LinkError, believed},
    resource::Key,
    store::{Attempt, LockError, Owner, Ownership, Token},
};

/// How many higher tokens a round or a forced release proposes if servers keep refusing them.
pub(super) const MOST_TOKENS: u32 = 3;

/// One try to take the lock, on all servers at once and under a value of its own. Dropping the round undoes what it
/// sent.
///
/// The value is never used again, so a late release of this round can't free the lock of another one.
pub(super) struct Round {
    inner: Arc<Inner>,
    attempt: Attempt,
    names: Names,
    value: Owner,
    token: Token,
    started: Instant,
    patience: Duration,
    asked: Vec<Asked>,
    replies: FuturesUnordered<BoxFuture<'static, Reply>>,
}

/// The index of the server, when it was asked, and its reply.
type Reply = (usize, Instant, Result<Taken, LinkError>);

#[derive(Clone, Copy, Debug)]
struct Asked {
    mark: Mark,
    said: Said,
    /// Whether the server was asked a second time.
    again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Taken { fenced: bool },
    Busy { left: Duration },
    Fault,
}

#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// A quorum answered, but others hold the lock on too many servers. `left`: the time until a quorum is free.
    Busy { left: Duration },
    /// Too many servers are down, or refuse.
    Unavailable(LockError),
    /// Too many servers did not answer in time.
    Silent,
    /// A quorum granted the lock, but too little of the lease is left.
    Late,
}

impl Round {
    /// Sends the request to all servers.
    pub(super) fn start(inner: &Arc<Inner>, attempt: &Attempt) -> Result<Self, LockError> {
        let token = inner.next_token(&attempt.key)?;
        let mut round = Self {
            names: inner.keys.of(&attempt.key),
            value: inner.new_owner(),
            token,
            started: Instant::now(),
            patience: inner.node_timeout(attempt.lease),
            asked: vec![Asked { mark: Mark::default(), said: Said::Nothing, again: false }; inner.nodes.len()],
            replies: FuturesUnordered::new(),
            attempt: attempt.clone(),
            inner: Arc::clone(inner),
        };
        for node in 0..inner.nodes.len() {
            round.ask(node);
        }
        Ok(round)
    }

    fn ask(&mut self, node: usize) {
        let (Some(at), Some(asked)) = (self.inner.nodes.get(node), self.asked.get_mut(node)) else { return };
        let taking = Taking { names: &self.names, value: &self.value, lease: self.attempt.lease, token: self.token };
        let sent = Instant::now();
        // A request before this one was certainly refused, so it left nothing on the server.
        let (mark, reply) = at.take(&taking, Mark::default());
        asked.mark = mark;
        self.replies.push(Box::pin(async move { (node, sent, reply.await) }));
    }

    /// Returns as soon as a quorum grants the lock, without waiting for the remaining servers.
    pub(super) async fn run(mut self) -> Result<Arc<Ownership>, Failure> {
        let limit = self.started + self.patience;
        while self.count(|said| matches!(said, Said::Taken { .. })) < self.inner.quorum() {
            if let Some(failure) = self.failed(false) {
                return Err(failure);
            }
            tokio::select! {
                biased;
                Some(reply) = self.replies.next() => self.heard(reply),
                () = sleep(limit.remaining()) => return Err(self.failed(true).unwrap_or_else(|| self.unavailable())),
            }
        }
        self.settle_token().await?;
        let until = believed(self.started, self.attempt.lease);
        if until.remaining() < self.attempt.lease / 2 {
            return Err(Failure::Late);
        }
        Ok(self.won(until))
    }

    fn heard(&mut self, (node, sent, reply): Reply) {
        let (Some(at), Some(asked)) = (self.inner.nodes.get(node), self.asked.get_mut(node)) else { return };
        if let Ok(taken) = reply {
            at.clock.note(sent, taken.now());
            asked.mark.answered = true;
        }
        let certainly_not_taken = matches!(
            reply,
            Ok(Taken::Busy { .. } | Taken::Stale { .. })
                | Err(LinkError::NoScript | LinkError::Down | LinkError::Open { .. } | LinkError::Unsent { .. })
        );
        if certainly_not_taken {
            asked.mark.sent = None;
        }
        asked.said = match reply {
            Ok(Taken::Fenced { .. }) => Said::Taken { fenced: true },
            Ok(Taken::Below { floor, .. }) => {
                self.inner.floors.note(&self.attempt.key, floor);
                Said::Taken { fenced: false }
            }
            Ok(Taken::Busy { left, .. }) => Said::Busy { left: left.unwrap_or(self.attempt.lease) },
            // Ask once more: the link loads the scripts again, and a stale reply has brought the server's time.
            Ok(Taken::Stale { .. }) | Err(LinkError::NoScript) if !asked.again => {
                asked.again = true;
                self.ask(node);
                return;
            }
            Ok(Taken::Stale { .. } | Taken::Gone { .. }) | Err(_) => Said::Fault,
        };
    }

    fn count(&self, wanted: impl Fn(Said) -> bool) -> usize {
        self.asked.iter().filter(|asked| wanted(asked.said)).count()
    }

    /// Why this round can't reach a quorum any more; `None` while it can. `over` counts silent servers as faults.
    ///
    /// "Held by others" and "too few answer" are different failures, since only the first one is a reason to wait.
    fn failed(&self, over: bool) -> Option<Failure> {
        let spare = self.inner.nodes.len() - self.inner.quorum();
        let mut faults = self.count(|said| said == Said::Fault);
        let busy = self.count(|said| matches!(said, Said::Busy { .. }));
        if faults > spare {
            return Some(self.unavailable());
        }
        if over {
            faults += self.count(|said| said == Said::Nothing);
        }
        if faults > spare {
            return Some(Failure::Silent);
        }
        let none_to_come = over || self.count(|said| said == Said::Nothing) == 0;
        (busy > spare || (none_to_come && busy + faults > spare)).then(|| {
            let left = self.asked.iter().filter_map(|asked| match asked.said {
                Said::Busy { left } => Some(left),
                Said::Nothing | Said::Taken { .. } | Said::Fault => None,
            });
            let mut left: Vec<_> = left.collect();
            left.sort_unstable();
            // `spare - faults` servers may stay busy; the lock is free once all others have expired.
            let enough = busy.saturating_sub(spare - faults).saturating_sub(1);
            Failure::Busy { left: left.get(enough).copied().unwrap_or_default() }
        })
    }

    fn unavailable(&self) -> Failure {
        Failure::Unavailable(self.inner.no_quorum())
    }

    /// Proposes higher tokens until a quorum accepts one.
    ///
    /// A server accepts a token only while it stores our value, and only if the token is above its floor. Any two
    /// owners share a server that both of them held, one after the other, and the later token is higher there.
    async fn settle_token(&mut self) -> Result<(), Failure> {
        // A single server with a higher floor outvotes the others: those may have lost their floors.
        if self.count(|said| said == Said::Taken { fenced: false }) == 0 {
            return Ok(());
        }
        for _ in 0..MOST_TOKENS {
            self.token = self.inner.next_token(&self.attempt.key).map_err(Failure::Unavailable)?;
            let limit = Instant::now() + self.patience;
            if accepted(&self.inner, &self.attempt.key, self.send_token(), limit).await {
                return Ok(());
            }
        }
        Err(self.unavailable())
    }

    fn send_token(&self) -> FuturesUnordered<BoxFuture<'static, Result<Taken, LinkError>>> {
        let asked = self.inner.nodes.iter().zip(&self.asked);
        // A server that has not answered yet may grant the lock before the token arrives on the same connection.
        let may_have_it = asked.filter(|(_, asked)| matches!(asked.said, Said::Taken { .. } | Said::Nothing));
        may_have_it
            .map(|(node, _)| -> BoxFuture<'static, _> {
                let keys = vec![self.names.lock.clone(), self.names.floor.clone()];
                let args = vec![self.value.as_str().into(), self.token.to_string().into_bytes()];
                let reply = node.link.call_at_once(&FENCE, keys, args);
                Box::pin(async move { Taken::read(&reply.await?) })
            })
            .collect()
    }

    fn won(mut self, until: Instant) -> Arc<Ownership> {
        let marks: Vec<_> = std::mem::take(&mut self.asked).into_iter().map(|asked| asked.mark).collect();
        let Attempt { key, mode, lease, .. } = self.attempt.clone();
        let ownership = Arc::new(Ownership::new(key, self.value.clone(), mode, self.token, lease, until, None));
        self.inner.held.insert(&ownership, marks);
        ownership
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        let marks: Vec<_> = std::mem::take(&mut self.asked).into_iter().map(|asked| asked.mark).collect();
        if marks.iter().any(|mark| mark.sent.is_some()) {
            drop(self.inner.undo(&self.names.lock, &self.value, &marks));
        }
        if !self.replies.is_empty() {
            // Late answers are still awaited: they update the breakers and the clocks.
            let (inner, mut replies) = (Arc::clone(&self.inner), std::mem::take(&mut self.replies));
            self.inner.spawn(async move {
                while let Some((node, sent, reply)) = replies.next().await {
                    if let (Some(at), Ok(taken)) = (inner.nodes.get(node), reply) {
                        at.clock.note(sent, taken.now());
                    }
                }
            });
        }
    }
}

/// Whether a quorum accepts the token before `limit`.
async fn accepted(
    inner: &Inner,
    key: &Key,
    mut replies: FuturesUnordered<BoxFuture<'static, Result<Taken, LinkError>>>,
    limit: Instant,
) -> bool {
    let mut fenced = 0;
    while fenced < inner.quorum() {
        if fenced + replies.len() < inner.quorum() {
            return false;
        }
        let reply = tokio::select! {
            biased;
            Some(reply) = replies.next() => reply,
            () = sleep(limit.remaining()) => return false,
        };
        match reply {
            Ok(Taken::Fenced { .. }) => fenced += 1,
            Ok(Taken::Below { floor, .. }) => {
                inner.floors.note(key, floor);
                return false;
            }
            Ok(_) | Err(_) => {}
        }
    }
    true
}
