use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{
    entry::{Confirmed, Entry},
    state::Entered,
    waiter::Waiter,
};
use crate::{
    clock::Instant,
    redis::{LinkError, believed},
    store::{
        Ownership, Recall,
        redis::{inner::unavailable, shard::Shard},
    },
};

/// The most confirmations of one grant. A further one is needed when little of the lease is left by the time a
/// confirmation arrives.
const MOST_CONFIRMATIONS: u32 = 3;
/// The pause before asking again after a grant that has ended for this process, but not yet at the server, because of
/// the allowance for clock drift.
const ENDING: Duration = Duration::from_millis(25);

impl Waiter {
    /// Enters with a grant. If the grant has too little time left, a renewal confirms it first.
    pub(super) async fn confirm(&mut self, mut entry: Entry) -> Entered {
        let (key, lease) = (&self.attempt.key, self.attempt.lease);
        let mut confirmations = 0;
        while entry.is_to_be_confirmed(self.grant_lease()) {
            if confirmations == MOST_CONFIRMATIONS {
                // Round trips take longer than the lease allows for. The attempt would keep the grant for ever and
                // never use it.
                return Entered::Unknown(unavailable(&LinkError::Timeout));
            }
            confirmations += 1;
            let sent = Instant::now();
            // Boxed, because it is seldom needed and several times as large as the rest of an attempt.
            let renewed = match Box::pin(self.inner.renew_one(key, &self.owner, entry.token, lease)).await {
                Ok(renewed) => renewed,
                Err(error) => {
                    self.inner.shards.suspect(&error);
                    return Entered::Unknown(self.inner.unavailable(key, &error));
                }
            };
            match entry.confirmed(renewed, believed(sent, lease)) {
                Confirmed::Renewed(renewed) => entry = renewed,
                Confirmed::AsItIs => break,
                Confirmed::Gone { now, early } => {
                    if early {
                        sleep(ENDING).await;
                    }
                    // The grant may belong to the next waiter by now, and older messages about it are ignored.
                    self.mailbox.dropped(now + 1);
                    return Entered::Gone;
                }
            }
        }
        Entered::Held(self.hold(entry))
    }

    fn hold(&mut self, entry: Entry) -> Arc<Ownership> {
        let Entry { token, until, handed_off, wanted, .. } = entry;
        let (key, owner) = (self.attempt.key.clone(), self.owner.clone());
        let (mode, lease) = (self.attempt.mode, self.attempt.lease);
        let ownership = Ownership::new(key, owner, mode, token, lease, until, handed_off);
        let ownership = Arc::new(ownership.shared_by(self.attempt.yields.clone()));
        self.inner.floors.note(&self.attempt.key, token.get());
        self.inner.held.insert(&ownership, self.server.asked, self.sendings.end());
        let shard = self.inner.shards.of(ownership.key.bucket());
        // Messages that arrive from here on find the ownership in the table.
        let is_heard = shard.as_ref().is_some_and(|shard| self.is_heard(shard));
        if wanted || self.mailbox.is_wanted() || !is_heard {
            ownership.recall(Recall::Once);
        }
        if let Some(reason) = self.mailbox.loss() {
            self.inner.held.lose(&ownership.owner, reason);
        }
        if let Some(shard) = shard {
            if shard.run() != self.server.asked {
                // The link has met another run of the server since, and asked about all other ownerships then.
                self.inner.verify(&shard);
            }
            self.inner.shards.listen_behind(&shard, ownership.key.bucket());
        }
        ownership
    }

    /// Whether a message that somebody waits would have arrived at any time since the grant.
    fn is_heard(&self, shard: &Shard) -> bool {
        shard.link.is_up() && self.server.heard_on.is_some() && shard.carried(|_| ()).0 == self.server.heard_on
    }
}
