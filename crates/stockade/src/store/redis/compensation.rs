use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{calls, inner::Inner, replies::Left, scripts::RELEASE};
use crate::{clock::Instant, redis::LinkError, resource::Key, store::Owner};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The last sending of an attempt that is given up, or of an ownership that is given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Instant,
    /// The connection it went out on, as the link counts them; `None` if that changed meanwhile.
    pub(super) generation: Option<u64>,
    /// After this nothing is left of it at the server, even if nobody undoes it.
    pub(super) forgotten: Instant,
}

impl Inner {
    /// Starts a RELEASE, which cancels as well, behind all commands before it.
    pub(super) fn send_release(
        &self,
        key: &Key,
        owner: &Owner,
    ) -> impl Future<Output = Result<Left, LinkError>> + Send + 'static + use<> {
        let args = calls::release(owner, &self.handing());
        let reply = self.link.call_regardless(&RELEASE, self.keys.of(key), args);
        async move { Left::read(&reply.await?) }
    }

    /// Undoes an attempt whose command was sent. The cancel is on its way when this returns.
    pub(super) fn cancel(self: &Arc<Self>, key: Key, owner: Owner, sent: Sent) {
        let before = self.link.generation();
        let reply = self.send_release(&key, &owner);
        // The connection that carries the cancel is known only if none was made meanwhile.
        let ordered = sent.generation == Some(before) && self.link.generation() == before;
        let inner = Arc::clone(self);
        self.spawn(async move {
            inner.see_through(&key, &owner, sent, ordered, reply).await;
            inner.waiters.remove(&owner);
        });
    }

    /// A grant for an attempt whose cancel is under way.
    pub(super) fn cancel_orphan(&self, owner: &Owner, key: &Key) {
        // The link waits for the reply; there is nothing to learn from it.
        drop(self.send_release(key, owner));
    }

    /// Repeats a release until the server has run one that surely came after what it undoes.
    pub(super) async fn see_through(
        &self,
        key: &Key,
        owner: &Owner,
        sent: Sent,
        mut ordered: bool,
        reply: impl Future<Output = Result<Left, LinkError>> + Send,
    ) {
        let mut outcome = reply.await;
        let mut pause = FIRST_PAUSE;
        // Until then a command sent before may still be accepted.
        let settled = sent.at + self.link.timeout() * 2 + Duration::from_millis(100);
        loop {
            match outcome {
                Ok(left) if left.more => {}
                Ok(_) if ordered => return,
                Ok(_) => {
                    sleep(settled.remaining()).await;
                    ordered = true;
                }
                Err(LinkError::NoScript) => {}
                Err(_) => {
                    if sent.forgotten.remaining().is_zero() {
                        return;
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    ordered = ordered && sent.generation == Some(self.link.generation());
                    ordered |= settled.remaining().is_zero();
                }
            }
            outcome = self.send_release(key, owner).await;
        }
    }
}
