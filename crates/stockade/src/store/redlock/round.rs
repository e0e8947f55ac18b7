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

/// How often a token is raised that some server has seen one above.
const MOST_TOKENS: u32 = 3;

/// One try to take the lock on all servers at once, under a value of its own. Dropping it undoes what was sent.
///
/// The value is never used again: what undoes this round, however late, can't meet another one.
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

/// Which server, when it was asked, and what it said.
type Reply = (usize, Instant, Result<Taken, LinkError>);

#[derive(Clone, Copy, Debug)]
struct Asked {
    mark: Mark,
    said: Said,
    /// Whether it was asked a second time.
    again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Taken { fenced: bool },
    Busy { left: Duration },
    Fault,
}

/// Why a round failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// A quorum answers, and too many of it are held by others; the time until a quorum is free.
    Busy { left: Duration },
    /// Too few answer.
    Unavailable(LockError),
    /// A quorum was had, but with too little of the lease left.
    Late,
}

impl Round {
    /// Sends the question to all servers.
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
        let taking =
            Taking { names: &self.names, value: &self.value, lease: self.attempt.lease, token: Some(self.token) };
        let sent = Instant::now();
        // What was asked before was refused for certain.
        let (mark, reply) = at.take(&taking, Mark::default());
        asked.mark = mark;
        self.replies.push(Box::pin(async move { (node, sent, reply.await) }));
    }

    /// The first quorum of grants wins; nobody waits for the rest.
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
        if until.remaining() < self.inner.settings.min_validity(self.attempt.lease).max(Duration::from_nanos(1)) {
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
                self.inner.tokens.note(&self.attempt.key, floor);
                Said::Taken { fenced: false }
            }
            Ok(Taken::Busy { left, .. }) => Said::Busy { left: left.unwrap_or(self.attempt.lease) },
            // With the scripts loaded again, or by the clock that the refusal has shown.
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

    /// Whether no quorum can be reached any more. `over` counts those that have said nothing as faults.
    ///
    /// "Held by others" and "too few answer" are told apart, since only the first one is a reason to wait.
    fn failed(&self, over: bool) -> Option<Failure> {
        let spare = self.inner.nodes.len() - self.inner.quorum();
        let faults = self.count(|said| said == Said::Fault || (over && said == Said::Nothing));
        let busy = self.count(|said| matches!(said, Said::Busy { .. }));
        if faults > spare {
            return Some(self.unavailable());
        }
        let none_to_come = over || self.count(|said| said == Said::Nothing) == 0;
        (busy > spare || (none_to_come && busy + faults > spare)).then(|| {
            let left = self.asked.iter().filter_map(|asked| match asked.said {
                Said::Busy { left } => Some(left),
                Said::Nothing | Said::Taken { .. } | Said::Fault => None,
            });
            let mut left: Vec<_> = left.collect();
            left.sort_unstable();
            // So many may stay busy.
            let enough = busy.saturating_sub(spare - faults).saturating_sub(1);
            Failure::Busy { left: left.get(enough).copied().unwrap_or_default() }
        })
    }

    fn unavailable(&self) -> Failure {
        Failure::Unavailable(self.inner.no_quorum())
    }

    /// The token must be above all others on a quorum of servers, each of which took it while the lock was ours there.
    /// Any two owners have a server in common that they held one after the other, and there the later token is higher.
    async fn settle_token(&mut self) -> Result<(), Failure> {
        // One that has seen a higher token outvotes the rest: those may have lost their data since.
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
        // One that has not answered yet may have the lock by the time this comes behind it.
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
            // Answers that come too late still tell the breakers and the clocks something.
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

/// Whether a quorum takes the token in time.
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
                inner.tokens.note(key, floor);
                return false;
            }
            Ok(_) | Err(_) => {}
        }
    }
    true
}
