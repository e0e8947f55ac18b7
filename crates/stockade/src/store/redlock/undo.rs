use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::{sync::mpsc, time::sleep};

use super::{inner::Inner, mark::Mark, node::Node, replies::released, scripts::RELEASE};
use crate::{
    clock::Instant,
    redis::{LinkError, evalsha},
    store::{Owner, Ownership, redis::parts::Sent},
};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What a release found on one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) held: bool,
    /// An earlier release got no answer, and may have deleted the value already.
    pub(super) unknown: bool,
}

impl Inner {
    /// Releases a value on every server that may store it.
    ///
    /// The commands have their place in the write order of their connections when this returns. A task of the store
    /// repeats them where necessary. The receiver gets the first answer of each server.
    pub(super) fn undo(self: &Arc<Self>, lock: &str, value: &Owner, marks: &[Mark]) -> mpsc::Receiver<Found> {
        let (tell, told) = mpsc::channel(marks.len().max(1));
        let undone: Vec<_> = marks
            .iter()
            .enumerate()
            .filter_map(|(node, mark)| mark.sent.map(|sent| (node, sent)))
            .filter_map(|(node, sent)| {
                let at = self.nodes.get(node)?;
                let generation = at.link.generation();
                let reply = at.release(lock, value);
                // If the link reconnected during the call, either connection may carry the release.
                let ordered = sent.carrier == Some(generation) && at.link.generation() == generation;
                let stray = if ordered { sent.stray } else { Some(sent.at) };
                let undo = Undo { inner: Arc::clone(self), node, lock: lock.to_owned(), value: value.clone(), sent };
                Some(undo.see_through(stray.map(|stray| at.settled(stray)), reply, tell.clone()))
            })
            .collect();
        self.spawn(async move {
            join_all(undone).await;
        });
        told
    }

    /// Releases an ownership. Returns how many servers are asked, and the receiver of their answers; `None` if the
    /// ownership was released before.
    pub(super) fn start_giving_back(self: &Arc<Self>, ownership: &Ownership) -> Option<(usize, mpsc::Receiver<Found>)> {
        let mut marks = self.held.remove(&ownership.owner)?;
        // Extensions have restarted the lease since it was asked for, and one that is under way may do so once more.
        let forgotten = Instant::now() + ownership.lease + self.timeout();
        for sent in marks.iter_mut().filter_map(|mark| mark.sent.as_mut()) {
            sent.forgotten = sent.forgotten.max(forgotten);
        }
        let asked = marks.iter().filter(|mark| mark.sent.is_some()).count();
        Some((asked, self.undo(&self.keys.of(&ownership.key).lock, &ownership.owner, &marks)))
    }

    pub(super) fn give_back_detached(self: &Arc<Self>, ownership: &Ownership) {
        drop(self.start_giving_back(ownership));
    }
}

impl Node {
    fn release(
        &self,
        lock: &str,
        value: &Owner,
    ) -> impl Future<Output = Result<bool, LinkError>> + Send + 'static + use<> {
        let make = |sha: &str| evalsha(sha, vec![lock.to_owned()], vec![value.as_str().into()]);
        let reply = self.link.undo_at_once(&RELEASE, &make);
        async move { released(&reply.await?) }
    }
}

/// The release of a value on one server.
struct Undo {
    inner: Arc<Inner>,
    node: usize,
    lock: String,
    value: Owner,
    sent: Sent<u64>,
}

impl Undo {
    /// Repeats the release until the server has run one that certainly came after the request to undo.
    ///
    /// `repeat` is `None` if the first release followed the request on the same connection. Otherwise the last release
    /// is sent after `repeat`: by then the server refuses the request as stale.
    async fn see_through(
        self,
        mut repeat: Option<Instant>,
        reply: impl Future<Output = Result<bool, LinkError>> + Send,
        tell: mpsc::Sender<Found>,
    ) {
        let Some(at) = self.inner.nodes.get(self.node) else { return };
        let mut outcome = reply.await;
        let (mut pause, mut unknown, mut tell) = (FIRST_PAUSE, false, Some(tell));
        loop {
            match outcome {
                Ok(held) => {
                    if let Some(tell) = tell.take() {
                        // The channel has a place for each server, and each server sends one message.
                        let _ = tell.try_send(Found { held, unknown });
                    }
                    match repeat.take() {
                        Some(at) => sleep(at.remaining()).await,
                        None => return,
                    }
                }
                Err(_) if self.sent.forgotten.remaining().is_zero() => return,
                Err(error) => {
                    unknown |= !error.is_never_executed() && !matches!(error, LinkError::NoScript);
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            let now = Instant::now();
            let reply = at.release(&self.lock, &self.value);
            // Compared after the sending: an equal generation before it does not rule out a new connection since.
            if self.sent.carrier != Some(at.link.generation()) {
                repeat = repeat.max(Some(at.settled(self.sent.at)));
            }
            repeat = repeat.filter(|at| *at > now);
            outcome = reply.await;
        }
    }
}
