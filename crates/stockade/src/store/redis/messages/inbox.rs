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
            shard::{Shard, ShardState},
        },
    },
};

/// A message to this process about one of its owners. Times are server times in µs.
///
/// | letter | words after it | means |
/// |---|---|---|
/// | `G` | owner, token, end of the lease, now, resource | the owner was granted the resource |
/// | `X` | owner, now | the lease of the owner expired |
/// | `D` | owners, now | the owners left the queue, or a single owner is next in it: each has to ask again |
/// | `F` | owner, now | a forced release took the resource from the owner |
/// | `W` | owner, now | somebody waits for the resource that the owner holds, or the owner may no longer renew |
#[derive(Debug)]
pub(crate) enum Message {
    Granted {
        owner: Owner,
        token: Token,
        x: u64,
        now: u64,
        /// The resource; `None` if the message does not name it.
        key: Option<Key>,
    },
    /// The lease of the owner expired, or a forced release took the resource from the owner.
    Ended { owner: Owner, now: u64, reason: LossReason },
    /// The owners have to ask again.
    Dropped { owners: Vec<Owner>, now: u64 },
    /// The owner holds the resource, and should release it soon.
    Wanted { owner: Owner },
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
            ["X", of, now] => Self::Ended { owner: owner(of), now: number(now)?, reason: LossReason::Expired },
            ["D", of @ .., now] => Self::Dropped { owners: of.iter().map(|of| owner(of)).collect(), now: number(now)? },
            ["F", of, now] => Self::Ended { owner: owner(of), now: number(now)?, reason: LossReason::Forced },
            ["W", of, _] => Self::Wanted { owner: owner(of) },
            _ => return None,
        })
    }
}

/// Receives the events of the links. It refers to the store weakly, since the store owns the links and the links this.
pub(crate) struct Inbox(pub(crate) Weak<Inner>);

impl RoutedEvents<ShardState> for Inbox {
    fn channel(&self, bucket: Bucket) -> Option<String> {
        self.0.upgrade().map(|inner| inner.keys.bucket_inbox(bucket, &inner.process))
    }

    fn message(&self, shard: &Arc<Shard>, _channel: &str, payload: &[u8]) {
        let Some(inner) = self.0.upgrade() else { return };
        match Message::read(payload) {
            Some(message) => inner.deliver(shard, message),
            None => tracing::warn!("a message in the inbox of the lock store can't be read: does another version run?"),
        }
    }

    fn prepare<'a>(
        &'a self,
        shard: &'a Arc<Shard>,
        up: &'a Up,
        handshake: &'a mut Handshake,
    ) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async move {
            let inner = self.0.upgrade().ok_or(LinkError::Down)?;
            shake_hands(&inner, shard, up, handshake).await
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

    fn leaving(&self, buckets: &[Bucket]) {
        if let Some(inner) = self.0.upgrade() {
            inner.held.recall_all(|key| buckets.contains(&key.bucket()));
        }
    }

    /// Waiters on resources that moved ask their new server, and ownerships there are renewed. A node that took over
    /// from a failed one may not know all of them.
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
                // Before the first exchange with the server its clock is unknown. Then the lease counts as over, and
                // the waiter confirms the grant with a renewal.
                let until = shard.state.clock.believed_push(received, now, x).unwrap_or(received);
                let handed_off = shard.state.clock.age(received, now).unwrap_or_default();
                let grant = Grant { token, now, until, handed_off };
                // A grant by a server that no longer has the bucket is not trusted. The waiter asks the new server.
                let deliver = |key: &Key, mailbox: &Mailbox| match self.shards.has(shard, key.bucket()) {
                    true => mailbox.granted(grant),
                    false => mailbox.reconnected(),
                };
                match self.waiters.post(&owner, deliver) {
                    Recipient::Waiter => {}
                    Recipient::GivenUp(key) => self.cancel_orphan(&owner, &key),
                    // The grant was made by a script of this process, whose reply has already told the attempt.
                    Recipient::Nobody if self.held.knows(&owner, token) => {}
                    Recipient::Nobody => self.decline(&owner, key),
                }
            }
            Message::Dropped { owners, now } => {
                for owner in owners {
                    self.waiters.post(&owner, |_, mailbox| mailbox.dropped(now));
                }
            }
            Message::Ended { owner, now, reason } => {
                let mut is_news = true;
                self.waiters.post(&owner, |_, mailbox| is_news = mailbox.ended(now, reason));
                // As for `Message::Wanted`: the attempt may be turning into an ownership right now.
                if is_news {
                    self.held.lose(&owner, reason);
                }
            }
            Message::Wanted { owner } => {
                // The attempt may be turning into an ownership right now. `Waiter::hold` enters the ownership in the
                // table first and reads the mailbox then. In the other order here, one of the two sees the message.
                self.waiters.post(&owner, |_, mailbox| mailbox.wanted());
                self.held.recall(&owner);
            }
        }
    }

    /// Releases a grant to an attempt that has ended. Otherwise the waiters behind it would wait for the end of a lease
    /// that nobody uses.
    ///
    /// The entry of the attempt was still in the queue because the server lost the release, or restored an old dump.
    fn decline(&self, owner: &Owner, key: Option<Key>) {
        let Some(key) = key else { return };
        tracing::debug!(?owner, label = %key.label(), "a grant came after its attempt had ended; giving it back");
        self.cancel_orphan(owner, &key);
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
