use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{cell::Grant, inner::unavailable, question::Answer, replies::Renewed, sample::believed, waiter::Waiter};
use crate::{
    clock::Instant,
    redis::LinkError,
    store::{LockError, Ownership, Token, Unavailable},
};

/// How often a grant is confirmed that is nearly over by the time each confirmation is there.
const MOST_CONFIRMATIONS: u32 = 3;
/// The pause before asking again for a grant that is over but for the drift of clocks.
const ENDING: Duration = Duration::from_millis(25);

impl Waiter {
    /// A grant was pushed. It was written by another process, which asked no replicas about it.
    pub(super) async fn admit(&mut self, grant: Grant) -> Answer {
        let replicated = self.inner.options.replicas.is_none();
        self.held(grant.token, grant.until, Some(grant.handed_off), replicated).await
    }

    /// Enters with a grant that has enough time left and, where that is asked for, is known to replicas; confirms it first
    /// where it has not, or is not.
    pub(super) async fn held(
        &mut self,
        token: Token,
        mut until: Instant,
        handed_off: Option<Duration>,
        mut replicated: bool,
    ) -> Answer {
        let mut confirmations = 0;
        while !replicated || until.remaining() < self.grant_lease() / 2 {
            if confirmations == MOST_CONFIRMATIONS {
                // Round trips take longer than the lease allows for: it would be kept for ever and never used.
                return Answer::Unknown(unavailable(&LinkError::Timeout));
            }
            confirmations += 1;
            let sent = Instant::now();
            match self.inner.renew_one(&self.attempt.key, &self.owner, self.attempt.lease).await {
                Ok((Renewed::Extended { .. }, true)) => {
                    until = believed(sent, self.attempt.lease);
                    replicated = true;
                }
                // Dropping the attempt gives it back.
                Ok((Renewed::Extended { .. }, false)) => return Answer::Refused(unreplicated()),
                // Forced, with the rest of its lease to finish in.
                Ok((Renewed::Ending { .. }, _)) if replicated && !until.remaining().is_zero() => break,
                Ok((renewed @ (Renewed::Ending { now } | Renewed::Gone { now }), _)) => {
                    if matches!(renewed, Renewed::Ending { .. }) {
                        // The server sees its end a little later than may be believed here.
                        sleep(ENDING).await;
                    }
                    // It is the next one's by now. Ours is the old place, to be asked for.
                    self.cell.dropped(now + 1);
                    if self.seq == 0 {
                        self.seq = token.get();
                    }
                    return Answer::Queued;
                }
                Err(error) => {
                    self.inner.shards.suspect(&error);
                    return Answer::Unknown(self.inner.unavailable(&self.attempt.key, &error));
                }
            }
        }
        let (key, owner) = (self.attempt.key.clone(), self.owner.clone());
        let (mode, lease) = (self.attempt.mode, self.attempt.lease);
        let ownership = Arc::new(Ownership::new(key, owner, mode, token, lease, until, handed_off));
        self.inner.floors.note(&self.attempt.key, token);
        let answered = self.answered;
        // One that timed out before the grant came may have gone with its connection when the release is sent.
        let stray = self.sent.take().and_then(|sent| if answered { sent.stray } else { Some(sent.at) });
        self.inner.held.insert(&ownership, self.run, stray);
        if let Some(shard) = self.inner.shards.of(ownership.key.bucket()) {
            if shard.run() != self.run {
                // The link has met another run since, and has asked about all others already.
                self.inner.verify(&shard);
            }
            self.inner.listen_behind(&shard, ownership.key.bucket());
        }
        Answer::Held(ownership)
    }
}

/// Too few replicas have the grant.
pub(super) fn unreplicated() -> LockError {
    LockError::Unavailable { reason: Unavailable::Unreplicated, retry_after: Duration::from_secs(1) }
}
