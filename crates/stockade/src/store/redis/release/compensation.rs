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
/// The longest pause while there is no connection: another attempt costs the server nothing, and somebody may wait for
/// the lock.
const LONGEST_UNSENT: Duration = Duration::from_millis(500);

impl Inner {
    /// Sends a RELEASE, which also cancels an attempt. It runs after all earlier commands of its connection. Returns
    /// the connection that carries it, and the reply.
    pub(crate) fn send_release(
        &self,
        key: &Key,
        owner: &Owner,
    ) -> (Option<Carrier>, impl Future<Output = Result<Left, LinkError>> + Send + 'static + use<>) {
        let sent = self.shard(key).map(|shard| {
            let handing = shard.handing(&self.keys, key.bucket());
            let release = |sha: &str| calls::release(sha, &self.keys, key, owner, &handing);
            // The keys of a cluster are in different slots.
            let joins = (!handing.all_keys).then_some(calls::RELEASES);
            shard.carried(|link| link.call_regardless(&RELEASE, &release, joins))
        });
        let (carrier, reply) = match sent {
            Ok((carrier, reply)) => (carrier, Ok(reply)),
            Err(error) => (None, Err(error)),
        };
        (carrier, async move { Left::read(&reply?.await?) })
    }

    /// The time from which the server refuses a command sent at `at` as stale, even if the stamp of the command was as
    /// far ahead as is allowed.
    pub(crate) fn settled(&self, at: Instant) -> Instant {
        at + self.timeout * 2 + Duration::from_millis(100)
    }

    /// Gives an attempt up whose command was sent, and undoes it. `queued` says whether the attempt was in the queue,
    /// as far as it knows. The cancel is on its way when this function returns.
    pub(crate) fn cancel(self: &Arc<Self>, key: Key, owner: Owner, sent: Sent, queued: bool) {
        self.waiters.give_up(&owner, &key);
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

    /// If the release did not find its lock or its place, the queue in which other attempts of this process stand may
    /// be gone, too. Then one of them asks.
    pub(crate) fn doubt_unless_found(&self, key: &Key, left: &Result<Left, LinkError>) {
        if left.as_ref().is_ok_and(|left| !left.found) {
            self.throttle.doubt(key);
        }
    }

    /// Cancels a grant for an attempt whose cancel is under way, or has been answered.
    pub(crate) fn cancel_orphan(&self, owner: &Owner, key: &Key) {
        // The link waits for the reply. There is nothing to learn from the reply here.
        drop(self.send_release(key, owner).1);
    }

    /// Repeats a release until the server has run one that certainly came after the command that it undoes. Where the
    /// order of the connection no longer ensures that, the release must be sent after `repeat`.
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
                // The scripts have been loaded again meanwhile.
                Err(LinkError::NoScript) if !scripts_lost => scripts_lost = true,
                Err(_) if sent.forgotten.remaining().is_zero() => return,
                Err(error) => {
                    self.shards.suspect(&error);
                    let is_unsent =
                        matches!(error, LinkError::Down | LinkError::Open { .. } | LinkError::Unsent { .. });
                    let longest = if is_unsent { LONGEST_UNSENT } else { LONGEST_PAUSE };
                    sleep(pause.min(longest)).await;
                    pause = (pause * 2).min(longest);
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
