use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;

use super::waiters::Recipient;
use crate::{
    clock::Instant,
    redis::{Handshake, LinkError, RoutedEvents, Up},
    resource::{Bucket, Key},
    store::{
        LossReason, Owner, Token,
        redis::{
            acquire::{Grant, Mailbox},
            commands::replies::{number, token},
            handshake::shake_hands,
            inner::Inner,
            scripts::JOIN,
            shard::{Shard, ShardState},
        },
    },
};

/// A message to this process: what became of one of its owners. Times are of the server, in µs.
///
/// | letter | words after it | means |
/// |---|---|---|
/// | `G` | owner, token, end of the lease, now, resource | the owner was granted the resource |
/// | `X` | owner, now | the lease of the owner ran out |
/// | `D` | owners, now | the owners were taken out of the queue; or one is to ask, for those behind it, too |
/// | `F` | owner, now | the resource was taken from the owner by force |
/// | `W` | owner, now | somebody waits for what the owner holds, or the owner may not renew it |
#[derive(Debug)]
pub(crate) enum Message {
    Granted {
        owner: Owner,
        token: Token,
        x: u64,
        now: u64,
        /// The resource; `None` when the message does not say.
        key: Option<Key>,
    },
    /// Its lease ran out.
    Ended {
        owner: Owner,
        now: u64,
    },
    /// They were removed from the queue.
    Dropped {
        owners: Vec<Owner>,
        now: u64,
    },
    Forced {
        owner: Owner,
        now: u64,
    },
    /// Somebody waits for what it holds, since it asked to be told.
    Wanted {
        owner: Owner,
    },
}

impl Message {
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let words: Vec<_> = std::str::from_utf8(payload).ok()?.split(' ').collect();
        let owner = |text: &str| Owner::new(text.to_owned());
        Some(match words.as_slice() {
            // A key may hold spaces.
            ["G", of, with, x, now, key @ ..] => {
                let key = Key::encoded("granted".into(), key.join(" ")).ok();
                Self::Granted { owner: owner(of), token: token(with)?, x: number(x)?, now: number(now)?, key }
            }
            ["X", of, now] => Self::Ended { owner: owner(of), now: number(now)? },
            ["D", of @ .., now] => Self::Dropped { owners: of.iter().map(|of| owner(of)).collect(), now: number(now)? },
            ["F", of, now] => Self::Forced { owner: owner(of), now: number(now)? },
            ["W", of, _] => Self::Wanted { owner: owner(of) },
            _ => return None,
        })
    }
}

/// The store's side of the link to its servers. Doesn't keep the store: the link keeps this.
pub(crate) struct Inbox(pub(crate) Weak<Inner>);

impl RoutedEvents<ShardState> for Inbox {
    fn channel(&self, bucket: Bucket) -> Option<String> {
        self.0.upgrade().map(|inner| inner.keys.bucket_inbox(bucket, &inner.process))
    }

    fn subscribing(&self, shard: &Shard, bucket: Bucket) {
        let Some(inner) = self.0.upgrade() else { return };
        // What it tells is of use to others; nothing here depends on it.
        drop(shard.link.call(&JOIN, vec![inner.keys.marker(bucket)], vec![shard.run_name()]));
    }

    fn message(&self, shard: &Arc<Shard>, _channel: &str, payload: &[u8]) {
        let Some(inner) = self.0.upgrade() else { return };
        match Message::read(payload) {
            Some(message) => inner.deliver(shard, message),
            None => tracing::warn!("a message in the inbox of the lock store can't be read; is another version about?"),
        }
    }

    fn prepare<'a>(
        &'a self,
        shard: &'a Arc<Shard>,
        up: &'a Up,
        buckets: &'a [Bucket],
        handshake: &'a mut Handshake,
    ) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async move {
            let inner = self.0.upgrade().ok_or(LinkError::Down)?;
            shake_hands(&inner, shard, up, buckets, handshake).await
        })
    }

    fn opened(&self, shard: &Arc<Shard>, up: &Up) {
        let Some(inner) = self.0.upgrade() else { return };
        if up.new_run || shard.is_partial() {
            inner.verify(shard);
        }
        inner.waiters.post_all(|key| inner.shards.has(shard, key.bucket()), Mailbox::reconnected);
    }

    fn closed(&self, shard: &Arc<Shard>) {
        if let Some(inner) = self.0.upgrade() {
            inner.held.recall_all(|key| inner.shards.has(shard, key.bucket()));
        }
    }

    fn dropped(&self) {}

    fn leaving(&self, buckets: &[Bucket]) {
        if let Some(inner) = self.0.upgrade() {
            inner.held.recall_all(|key| buckets.contains(&key.bucket()));
        }
    }

    /// Whoever waits for a resource that moved asks at its new place, and what is held there is asked about: a node
    /// that took over from one that failed may know less.
    fn moved(&self, buckets: &[Bucket], places: &[Arc<Shard>]) {
        let Some(inner) = self.0.upgrade() else { return };
        inner.waiters.post_all(|key| buckets.contains(&key.bucket()), Mailbox::reconnected);
        places.iter().for_each(|shard| inner.verify(shard));
    }
}

impl Inner {
    fn deliver(&self, shard: &Shard, message: Message) {
        match message {
            Message::Granted { owner, token, x, now, key } => {
                let received = Instant::now();
                // Without any exchange to map it by, it counts as over and is confirmed.
                let until = shard.state.clock.believed_push(received, now, x).unwrap_or(received);
                let handed_off = shard.state.clock.age(received, now).unwrap_or_default();
                let grant = Grant { token, now, until, handed_off };
                // One by a server that has lost the bucket since is not to be trusted; the next one knows.
                let deliver = |key: &Key, mailbox: &Mailbox| match self.shards.has(shard, key.bucket()) {
                    true => mailbox.granted(grant),
                    false => mailbox.reconnected(),
                };
                match self.waiters.post(&owner, deliver) {
                    Recipient::Waiter => {}
                    Recipient::GivenUp(key) => self.cancel_orphan(&owner, &key),
                    // The grant of a script of our own, which its reply has told already.
                    Recipient::Nobody if self.held.knows(&owner, token) => {}
                    Recipient::Nobody => self.decline(&owner, key),
                }
            }
            Message::Dropped { owners, now } => {
                for owner in owners {
                    self.waiters.post(&owner, |_, mailbox| mailbox.dropped(now));
                }
            }
            Message::Ended { owner, now } => self.ended(&owner, now, LossReason::Expired),
            Message::Forced { owner, now } => self.ended(&owner, now, LossReason::Forced),
            Message::Wanted { owner } => {
                // Its grant may not be known here yet: it is looked for in this order, and becomes known in the other
                // one.
                self.waiters.post(&owner, |_, mailbox| mailbox.wanted());
                self.held.recall(&owner);
            }
        }
    }

    /// The entry of an attempt that has ended stood in the queue, from a server that lost its end or from a dump that
    /// was restored: those behind it would wait for the end of a lease that nobody uses.
    fn decline(&self, owner: &Owner, key: Option<Key>) {
        let Some(key) = key else { return };
        tracing::debug!(?owner, label = %key.label(), "a grant came after its attempt had ended; giving it back");
        self.cancel_orphan(owner, &key);
    }

    fn ended(&self, owner: &Owner, now: u64, reason: LossReason) {
        if let Recipient::Nobody = self.waiters.post(owner, |_, mailbox| mailbox.dropped(now)) {
            self.held.lose(owner, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_others_refused() {
        assert!(matches!(
            Message::read(b"G abc.00000000001 1763668800000000 1763668802000000 1763668800000001"),
            Some(Message::Granted { x: 1_763_668_802_000_000, key: None, .. })
        ));
        assert!(matches!(
            Message::read(b"G abc.00000000001 1 2 3 stock:BANK CHARGES"),
            Some(Message::Granted { key: Some(key), .. }) if key.as_str() == "stock:BANK CHARGES"
        ));
        assert!(matches!(Message::read(b"D abc.00000000001 5"), Some(Message::Dropped { now: 5, .. })));
        assert!(matches!(Message::read(b"D a b c 5"), Some(Message::Dropped { owners, .. }) if owners.len() == 3));
        for odd in ["", "G", "G a 1 2", "G a 1e15 2 3", "Z a 1", "G a 9007199254740992 2 3"] {
            assert!(Message::read(odd.as_bytes()).is_none(), "{odd}");
        }
    }
}
