use std::{sync::Arc, time::Duration};

use futures_util::{
    StreamExt,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use tokio::sync::oneshot;

use super::{
    inner::Inner,
    node::{Node, Taking},
    replies::{Extended, Taken},
    scripts::EXTEND,
};
use crate::{
    clock::Instant,
    redis::{LinkError, believed},
    store::{LockError, LossReason, Ownership, redis::parts::millis},
};

/// The most resources in one script.
const BATCH: usize = 100;

/// One extension of several ownerships on all servers.
///
/// What proves an ownership is a quorum of servers that still had its value. A server without it is given it again once
/// that is proved, and counts from the next extension on: counted at once, a majority that came back empty, and may
/// have served somebody else meanwhile, would prove an ownership by what this extension wrote itself.
pub(super) struct Extension {
    inner: Arc<Inner>,
    ownerships: Vec<Arc<Ownership>>,
    tallies: Vec<Tally>,
    sent: Instant,
    replies: FuturesUnordered<BoxFuture<'static, Reply>>,
    refills: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// Which server, its run and the time when it was asked, and what it said of each ownership.
type Reply = (usize, u64, Instant, Result<(u64, Vec<Extended>), LinkError>);

/// What the servers said of one ownership.
#[derive(Clone, Debug, Default)]
struct Tally {
    extended: usize,
    /// Servers that don't have it, and whether they have lost data.
    gone: Vec<(usize, bool)>,
    /// How many of them have another's value.
    foreign: usize,
    /// Servers that nobody holds it on.
    absent: Vec<usize>,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Confirmed,
    Lost,
}

impl Inner {
    /// Returns as soon as every ownership is confirmed or lost: a server that is stuck holds nothing up. The rest of
    /// the answers is seen to by a task of the store.
    pub(super) async fn renew(self: &Arc<Self>, ownerships: &[Arc<Ownership>]) -> Result<(), LockError> {
        if ownerships.is_empty() {
            return Ok(());
        }
        let (tell, told) = oneshot::channel();
        self.spawn(Extension::start(self, ownerships).run(tell));
        told.await.unwrap_or_else(|_| Err(self.no_quorum()))
    }

    /// A server came back, perhaps empty: gives it what it lost now and not when the leases are due, and finds out what
    /// has been lost.
    pub(super) fn verify_all(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        self.spawn(async move {
            for some in inner.held.all().chunks(BATCH) {
                if let Err(error) = inner.renew(some).await {
                    tracing::debug!(%error, "could not ask about all locks after a server came back");
                }
            }
        });
    }
}

impl Node {
    async fn extend(
        &self,
        calls: &[(Vec<String>, Vec<Vec<u8>>)],
        expected: usize,
    ) -> Result<(u64, Vec<Extended>), LinkError> {
        let sizes: Vec<_> = calls.iter().map(|(keys, _)| keys.len() / 2).collect();
        let ask = || join_all(calls.iter().cloned().map(|(keys, args)| self.link.call_renewal(&EXTEND, keys, args)));
        let mut replies = ask().await;
        if replies.iter().any(|reply| matches!(reply, Err(LinkError::NoScript))) {
            // Loaded again meanwhile. A batch that was executed may be executed once more.
            replies = ask().await;
        }
        let (mut now, mut all) = (0, Vec::with_capacity(expected));
        for (reply, size) in replies.into_iter().zip(sizes) {
            let (at, results) = Extended::read_all(&reply?, size)?;
            now = at;
            all.extend(results);
        }
        Ok((now, all))
    }
}

impl Extension {
    fn start(inner: &Arc<Inner>, ownerships: &[Arc<Ownership>]) -> Self {
        let calls: Vec<_> = ownerships
            .chunks(BATCH)
            .map(|some| {
                let names = some.iter().map(|ownership| inner.keys.of(&ownership.key));
                let keys = names.flat_map(|names| [names.lock, names.floor]).collect();
                let args = some.iter().flat_map(|ownership| [ownership.owner.as_str().into(), millis(ownership.lease)]);
                (keys, args.collect())
            })
            .collect();
        let (sent, expected) = (Instant::now(), ownerships.len());
        let ask = |node: usize| -> BoxFuture<'static, Reply> {
            let (inner, calls) = (Arc::clone(inner), calls.clone());
            Box::pin(async move {
                let sent = Instant::now();
                match inner.nodes.get(node) {
                    Some(at) => (node, at.run(), sent, at.extend(&calls, expected).await),
                    None => (node, 0, sent, Err(LinkError::Down)),
                }
            })
        };
        Self {
            ownerships: ownerships.to_vec(),
            tallies: vec![Tally::default(); ownerships.len()],
            sent,
            replies: (0..inner.nodes.len()).map(ask).collect(),
            refills: FuturesUnordered::new(),
            inner: Arc::clone(inner),
        }
    }

    async fn run(mut self, tell: oneshot::Sender<Result<(), LockError>>) {
        let mut tell = Some(tell);
        while let Some((node, run, sent, reply)) = self.replies.next().await {
            match reply {
                Ok((now, results)) => {
                    if let Some(at) = self.inner.nodes.get(node) {
                        at.clock.note(sent, now);
                    }
                    for (n, result) in results.into_iter().enumerate() {
                        self.heard(n, node, run, result);
                    }
                }
                Err(error) => tracing::debug!(node, %error, "a server did not answer an extension"),
            }
            if self.tallies.iter().all(|tally| tally.verdict.is_some())
                && let Some(tell) = tell.take()
            {
                // Nobody waits for it after a time-out.
                let _ = tell.send(Ok(()));
            }
        }
        if let Some(tell) = tell {
            let _ = tell.send(Err(self.inner.no_quorum()));
        }
        while self.refills.next().await.is_some() {}
    }

    fn heard(&mut self, n: usize, node: usize, run: u64, result: Extended) {
        let (Some(ownership), Some(tally)) = (self.ownerships.get(n), self.tallies.get_mut(n)) else { return };
        // It may have been given back meanwhile.
        let Some(last) = self.inner.held.update(&ownership.owner, node, |mark| mark.run) else {
            tally.verdict = Some(Verdict::Confirmed);
            return;
        };
        match result {
            Extended::Kept => {
                tally.extended += 1;
                self.inner.held.update(&ownership.owner, node, |mark| mark.run = run);
            }
            Extended::Absent | Extended::Emptied => {
                tally.gone.push((node, result == Extended::Emptied || last != run));
                tally.absent.push(node);
            }
            Extended::Foreign => {
                tally.gone.push((node, last != run));
                tally.foreign += 1;
            }
        }
        let (quorum, spare) = (self.inner.quorum(), self.inner.nodes.len() - self.inner.quorum());
        if tally.verdict.is_none() && tally.extended >= quorum {
            tally.verdict = Some(Verdict::Confirmed);
            ownership.extend(believed(self.sent, ownership.lease));
        } else if tally.verdict.is_none() && tally.gone.len() > spare {
            tally.verdict = Some(Verdict::Lost);
            ownership.lose(ownership.loss().unwrap_or_else(|| tally.reason(spare)));
        }
        if tally.verdict == Some(Verdict::Confirmed) {
            let absent = std::mem::take(&mut tally.absent);
            let ownership = Arc::clone(ownership);
            for node in absent {
                self.refill(&ownership, node);
            }
        }
    }

    /// Takes the lock on a server that has lost it. The token goes with it, as the floor of a server that has none.
    fn refill(&self, ownership: &Arc<Ownership>, node: usize) {
        let Some(at) = self.inner.nodes.get(node) else { return };
        let names = self.inner.keys.of(&ownership.key);
        let Ownership { owner: value, lease, token, .. } = ownership.as_ref();
        let asked = self.inner.held.update(value, node, |mark| {
            ownership.loss().is_none().then(|| {
                let taking = Taking { names: &names, value, lease: *lease, token: Some(*token) };
                let (asked, reply) = at.take(&taking, *mark);
                *mark = asked;
                (asked, reply)
            })
        });
        let Some((asked, reply)) = asked.flatten() else { return };
        let (inner, value) = (Arc::clone(&self.inner), value.clone());
        self.refills.push(Box::pin(async move {
            let sent = asked.sent.map_or_else(Instant::now, |sent| sent.at);
            let Ok(taken) = reply.await else { return };
            if let Some(at) = inner.nodes.get(node) {
                at.clock.note(sent, taken.now());
            }
            inner.held.update(&value, node, |mark| {
                mark.answered |= mark.sent.is_some_and(|last| last.at == sent);
            });
            if let Taken::Busy { left, .. } = taken {
                tracing::debug!(node, left = ?left.unwrap_or(Duration::MAX), "a server without our lock is held by another");
            }
        }));
    }
}

impl Tally {
    /// Why it is lost although its lease had time left.
    fn reason(&self, spare: usize) -> LossReason {
        let intact = self.gone.iter().filter(|(_, emptied)| !emptied).count();
        if intact <= spare {
            LossReason::StoreLostData
        } else if self.foreign > 0 {
            LossReason::Stolen
        } else {
            LossReason::Forced
        }
    }
}
