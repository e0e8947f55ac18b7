use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{cell::Grant, inner::unavailable, question::Answer, replies::Renewed, sample::believed, waiter::Waiter};
use crate::{
    clock::Instant,
    redis::LinkError,
    store::{Ownership, Token},
};

/// How often a grant is confirmed that is nearly over by the time each confirmation is there.
const MOST_CONFIRMATIONS: u32 = 3;
/// The pause before asking again for a grant that is over but for the drift of clocks.
const ENDING: Duration = Duration::from_millis(25);

impl Waiter {
    /// A grant was pushed; `None` when it is over and the attempt must ask again.
    pub(super) async fn admit(&mut self, grant: Grant) -> Option<Arc<Ownership>> {
        match self.held(grant.token, grant.until, Some(grant.handed_off)).await {
            Answer::Held(ownership) => Some(ownership),
            Answer::Queued | Answer::Refused(_) => None,
            Answer::Unknown(error) => {
                self.trouble = Some(error);
                None
            }
        }
    }

    /// Enters with a grant that has enough time left; confirms it first where it has not.
    pub(super) async fn held(&mut self, token: Token, mut until: Instant, handed_off: Option<Duration>) -> Answer {
        let mut confirmations = 0;
        while until.remaining() < self.grant_lease() / 2 {
            if confirmations == MOST_CONFIRMATIONS {
                // Round trips take longer than the lease allows for: it would be kept for ever and never used.
                return Answer::Unknown(unavailable(&LinkError::Timeout));
            }
            confirmations += 1;
            let sent = Instant::now();
            match self.inner.renew_one(&self.attempt.key, &self.owner, self.attempt.lease).await {
                Ok(Renewed::Extended { .. }) => {
                    until = believed(sent, self.attempt.lease);
                }
                // Forced, with the rest of its lease to finish in.
                Ok(Renewed::Ending { .. }) if !until.remaining().is_zero() => break,
                Ok(renewed @ (Renewed::Ending { now } | Renewed::Gone { now })) => {
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
                    return Answer::Unknown(unavailable(&error));
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
