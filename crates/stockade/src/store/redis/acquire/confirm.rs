use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{call::AcquireOutcome, mailbox::Grant, waiter::Waiter};
use crate::{
    clock::Instant,
    redis::LinkError,
    store::{
        LockError, Ownership, Recall, Token, Unavailable,
        redis::{commands::replies::Renewed, inner::unavailable, server_clock::believed},
    },
};

/// How often a grant is confirmed that is nearly over by the time each confirmation is there.
const MOST_CONFIRMATIONS: u32 = 3;
/// The pause before asking again for a grant that is over but for the drift of clocks.
const ENDING: Duration = Duration::from_millis(25);

/// How a grant came.
pub(crate) struct Entry {
    /// Until when it may be believed in.
    pub(crate) until: Instant,
    pub(crate) handed_off: Option<Duration>,
    /// Whether as many replicas have it as are wanted.
    pub(crate) replicated: bool,
    /// Whether others wait for it, as far as is known.
    pub(crate) wanted: bool,
}

impl Waiter {
    /// A grant was pushed. It was written by another process, which asked no replicas about it.
    pub(crate) async fn admit(&mut self, grant: Grant) -> AcquireOutcome {
        let replicated = self.inner.options.replicas.is_none();
        // Others may wait behind it.
        let entry = Entry { until: grant.until, handed_off: Some(grant.handed_off), replicated, wanted: true };
        self.held(grant.token, entry).await
    }

    /// Enters with a grant that has enough time left and, where that is asked for, is known to replicas; confirms it first
    /// where it has not, or is not.
    pub(crate) async fn held(&mut self, token: Token, entry: Entry) -> AcquireOutcome {
        let Entry { mut until, handed_off, mut replicated, mut wanted } = entry;
        let mut confirmations = 0;
        while !replicated || until.remaining() < self.grant_lease() / 2 {
            if confirmations == MOST_CONFIRMATIONS {
                // Round trips take longer than the lease allows for: it would be kept for ever and never used.
                return AcquireOutcome::Unknown(unavailable(&LinkError::Timeout));
            }
            confirmations += 1;
            let sent = Instant::now();
            match self.inner.renew_one(&self.attempt.key, &self.owner, self.attempt.lease).await {
                Ok((Renewed::Extended { wanted: waited, .. }, true)) => {
                    until = believed(sent, self.attempt.lease);
                    (replicated, wanted) = (true, wanted || waited);
                }
                // Dropping the attempt gives it back.
                Ok((Renewed::Extended { .. }, false)) => return AcquireOutcome::Refused(unreplicated()),
                // Forced, with the rest of its lease to finish in.
                Ok((Renewed::Ending { .. }, _)) if replicated && !until.remaining().is_zero() => break,
                Ok((renewed @ (Renewed::Ending { now } | Renewed::Gone { now }), _)) => {
                    if matches!(renewed, Renewed::Ending { .. }) {
                        // The server sees its end a little later than may be believed here.
                        sleep(ENDING).await;
                    }
                    // It is the next one's by now. Ours is the old place, to be asked for.
                    self.mailbox.dropped(now + 1);
                    if self.seq == 0 {
                        self.seq = token.get();
                    }
                    return AcquireOutcome::Queued;
                }
                Err(error) => {
                    self.inner.shards.suspect(&error);
                    return AcquireOutcome::Unknown(self.inner.unavailable(&self.attempt.key, &error));
                }
            }
        }
        let (key, owner) = (self.attempt.key.clone(), self.owner.clone());
        let (mode, lease) = (self.attempt.mode, self.attempt.lease);
        let ownership = Ownership::new(key, owner, mode, token, lease, until, handed_off);
        let ownership = Arc::new(ownership.shared_by(self.attempt.yields.clone()));
        self.inner.floors.note(&self.attempt.key, token);
        let answered = self.answered;
        // One that timed out before the grant came may have gone with its connection when the release is sent.
        let stray = self.sent.take().and_then(|sent| if answered { sent.stray } else { Some(sent.at) });
        self.inner.held.insert(&ownership, self.run, stray);
        // What is told from here on finds it there.
        if wanted || self.mailbox.is_wanted() || !self.is_heard() {
            ownership.recall(Recall::Once);
        }
        if let Some(shard) = self.inner.shards.of(ownership.key.bucket()) {
            if shard.run() != self.run {
                // The link has met another run since, and has asked about all others already.
                self.inner.verify(&shard);
            }
            self.inner.shards.listen_behind(&shard, ownership.key.bucket());
        }
        AcquireOutcome::Held(ownership)
    }

    /// Whether a message that somebody waits would come, from the grant on.
    fn is_heard(&self) -> bool {
        let Some(shard) = self.inner.shards.of(self.attempt.key.bucket()) else { return false };
        shard.link.is_up() && self.heard.is_some() && shard.carried(|_| ()).0 == self.heard
    }
}

/// Too few replicas have the grant.
pub(crate) fn unreplicated() -> LockError {
    LockError::Unavailable { reason: Unavailable::Unreplicated, retry_after: Duration::from_secs(1) }
}
