use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::sendings::Sent;
use crate::{
    clock::Instant,
    redis::{Carrier, LinkError},
    resource::Key,
    store::{
        Owner,
        redis::{
            commands::{calls, replies::Left},
            inner::Inner,
            scripts::RELEASE,
        },
    },
};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Inner {
    /// Starts a RELEASE, which cancels as well, behind all commands before it. Returns what carries it, beside the
    /// reply.
    pub(crate) fn send_release(
        &self,
        key: &Key,
        owner: &Owner,
    ) -> (Option<Carrier>, impl Future<Output = Result<Left, LinkError>> + Send + 'static + use<>) {
        let sent = self.shard(key).map(|shard| {
            let handing = shard.handing(&self.keys, key.bucket());
            let release = |sha: &str| calls::release(sha, &self.keys, key, owner, &handing);
            shard.carried(|link| link.call_regardless(&RELEASE, &release))
        });
        let (carrier, reply) = match sent {
            Ok((carrier, reply)) => (carrier, Ok(reply)),
            Err(error) => (None, Err(error)),
        };
        (carrier, async move { Left::read(&reply?.await?) })
    }

    /// From then on a command that was sent at `at` is refused as stale, also when its stamp was as far ahead as
    /// allowed.
    pub(crate) fn settled(&self, at: Instant) -> Instant {
        at + self.timeout * 2 + Duration::from_millis(100)
    }

    /// Undoes an attempt whose command was sent, and which has been `queued` as far as it knows. The cancel is on its
    /// way when this returns.
    pub(crate) fn cancel(self: &Arc<Self>, key: Key, owner: Owner, sent: Sent, queued: bool) {
        let (carrier, reply) = self.send_release(&key, &owner);
        let ordered = carrier.is_some() && carrier == sent.carrier;
        let stray = if ordered { sent.stray } else { Some(sent.at) };
        let inner = Arc::clone(self);
        self.spawn(async move {
            let repeat = stray.map(|at| inner.settled(at));
            let reply = async {
                let left = reply.await;
                if queued {
                    inner.doubt_unless_found(&key, &left);
                }
                left
            };
            Box::pin(inner.see_through(&key, &owner, repeat, sent, reply)).await;
            inner.waiters.remove(&owner);
        });
    }

    /// A lock or a place that is gone may have gone with the queue in which others of this process stand.
    pub(crate) fn doubt_unless_found(&self, key: &Key, left: &Result<Left, LinkError>) {
        if left.as_ref().is_ok_and(|left| !left.found) {
            self.throttle.doubt(key);
        }
    }

    /// A grant for an attempt whose cancel is under way, or has been answered.
    pub(crate) fn cancel_orphan(&self, owner: &Owner, key: &Key) {
        // The link waits for the reply; there is nothing to learn from it.
        drop(self.send_release(key, owner).1);
    }

    /// Repeats a release until the server has run one that surely came after what it undoes: one that is sent after
    /// `repeat`, where the order of the connection no longer says so.
    pub(crate) async fn see_through(
        &self,
        key: &Key,
        owner: &Owner,
        mut repeat: Option<Instant>,
        sent: Sent,
        reply: impl Future<Output = Result<Left, LinkError>> + Send,
    ) {
        let mut outcome = reply.await;
        let mut pause = FIRST_PAUSE;
        let mut scripts_lost = false;
        loop {
            match outcome {
                Ok(left) if left.more => {}
                Ok(_) => match repeat.take() {
                    Some(at) => sleep(at.remaining()).await,
                    None => return,
                },
                // Loaded again meanwhile.
                Err(LinkError::NoScript) if !scripts_lost => scripts_lost = true,
                Err(_) if sent.forgotten.remaining().is_zero() => return,
                Err(error) => {
                    self.shards.suspect(&error);
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            let now = Instant::now();
            let (carrier, reply) = self.send_release(key, owner);
            if carrier.is_none() || carrier != sent.carrier {
                repeat = repeat.max(Some(self.settled(sent.at)));
            }
            repeat = repeat.filter(|at| *at > now);
            outcome = reply.await;
        }
    }
}
