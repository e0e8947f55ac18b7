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
/// An ownership is confirmed by a quorum of servers that still stored its value. After that the extension writes the
/// value to the servers that lost it (a refill), and those count from the next extension on. If a refill counted at
/// once, a majority of servers that came back empty would confirm the ownership by a value that the extension itself
/// wrote, although they may have granted the lock to another owner meanwhile.
pub(super) struct Extension {
    inner: Arc<Inner>,
    ownerships: Vec<Arc<Ownership>>,
    tallies: Vec<Tally>,
    sent: Instant,
    replies: FuturesUnordered<BoxFuture<'static, Reply>>,
    refills: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// The index of the server, its run, when it was asked, and its reply: its time and a result for each ownership.
type Reply = (usize, u64, Instant, Result<(u64, Vec<Extended>), LinkError>);

/// The servers' replies about one ownership.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// How many servers still stored the value.
    extended: usize,
    /// The servers that do not store the value, and whether each has lost its data.
    gone: Vec<(usize, bool)>,
    /// How many of `gone` store another owner's value.
    foreign: usize,
    /// The servers of `gone` that store no value, and have not been refilled.
    absent: Vec<usize>,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Confirmed,
    Lost,
}

impl Inner {
    /// Extends the ownerships. Returns as soon as each is confirmed or lost, so a server that hangs delays nothing.
    ///
    /// A task of the store goes on to receive the other answers.
    pub(super) async fn renew(self: &Arc<Self>, ownerships: &[Arc<Ownership>]) -> Result<(), LockError> {
        if ownerships.is_empty() {
            return Ok(());
        }
        let (tell, told) = oneshot::channel();
        self.spawn(Extension::start(self, ownerships).run(tell));
        told.await.unwrap_or_else(|_| Err(self.no_quorum()))
    }

    /// Extends all ownerships after a server came back, perhaps empty.
    ///
    /// This refills the server and detects lost ownerships at once, not only when the leases are due for renewal.
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
            // The link has loaded the scripts again. Extending a batch a second time does no harm.
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
                // The caller may have stopped waiting.
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
        // The ownership may have been released meanwhile: nothing is left to decide.
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

    /// Takes the lock on a server that has lost it. The request carries the token, which becomes the floor of a server
    /// that lost its floors.
    fn refill(&self, ownership: &Arc<Ownership>, node: usize) {
        let Some(at) = self.inner.nodes.get(node) else { return };
        let names = self.inner.keys.of(&ownership.key);
        let Ownership { owner: value, lease, token, .. } = ownership.as_ref();
        let asked = self.inner.held.update(value, node, |mark| {
            ownership.loss().is_none().then(|| {
                let taking = Taking { names: &names, value, lease: *lease, token: *token };
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
                tracing::debug!(node, left = ?left.unwrap_or(Duration::MAX), "another owner has this server's lock");
            }
        }));
    }
}

impl Tally {
    /// Why the ownership is lost although its lease had time left.
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
