use std::{sync::Arc, time::Duration};

use crate::{clock::Instant, resource::Key, store::Ownership};

/// The time that every renewal is given at least, however short the lease: a slow round trip.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) id: u64,
    pub(super) ownership: Arc<Ownership>,
    /// When the renewal was planned to be sent. The next one is planned from here.
    pub(super) planned: Instant,
    /// The deadline before the renewal. A confirmation moves it.
    pub(super) deadline: Instant,
}

/// Renewals that are sent together, all to one shard.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) due: Vec<Due>,
    pub(super) ownerships: Vec<Arc<Ownership>>,
    /// How long the batch may take. Even after two that hang, there must be time for a third.
    pub(super) patience: Duration,
}

/// The most renewals in one call, so that one slow call does not hold up many.
const MOST: usize = 256;

/// Batches of these renewals, in the order of their deadlines. Each goes to one shard only, so that a shard that hangs
/// holds up no other. The leases in a batch differ by less than a factor of two, since the shortest decides how long
/// the batch may take.
pub(super) fn batches(mut due: Vec<Due>, shard: impl Fn(&Key) -> u32) -> Vec<Batch> {
    due.sort_by_key(|due| due.deadline);
    let mut alike: Vec<((u32, u32), Vec<Due>)> = Vec::new();
    for due in due {
        let kind = (shard(&due.ownership.key), due.ownership.lease.as_millis().max(1).ilog2());
        match alike.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, renewals)) => renewals.push(due),
            None => alike.push((kind, vec![due])),
        }
    }
    let mut batches: Vec<_> = alike.iter().flat_map(|(_, due)| due.chunks(MOST).map(Batch::new)).collect();
    batches.sort_by_key(|batch| batch.due.first().map(|due| due.deadline));
    batches
}

impl Batch {
    fn new(due: &[Due]) -> Self {
        let ownerships: Vec<_> = due.iter().map(|due| Arc::clone(&due.ownership)).collect();
        let shortest = ownerships.iter().map(|ownership| ownership.lease).min().unwrap_or_default();
        Self { due: due.to_vec(), ownerships, patience: (shortest / 6).max(LEAST_PATIENCE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Mode, Owner, Token};

    fn due(id: u64, millis: u64) -> Due {
        let (now, lease) = (Instant::now(), Duration::from_millis(millis));
        let (key, token) = (Key::encoded("stock".into(), "stock:a".into()).unwrap(), Token::new(1).unwrap());
        let ownership = Ownership::new(key, Owner::new(id.to_string()), Mode::Write, token, lease, now + lease, None);
        Due { id, ownership: Arc::new(ownership), planned: now, deadline: now + lease }
    }

    #[test]
    fn a_short_lease_does_not_wait_behind_all_long_ones() {
        let long = (0..=MOST as u64)
            .map(|id| Due { deadline: Instant::now() + Duration::from_secs(id / 200), ..due(id, 60_000) });
        let short = Due { deadline: Instant::now() + Duration::from_millis(500), ..due(999, 2_000) };
        let batches = batches(long.chain([short]).collect(), |_| 0);
        assert_eq!(batches.iter().map(|batch| batch.due.len()).collect::<Vec<_>>(), [MOST, 1, 1]);
        assert_eq!(batches[1].due[0].id, 999);
    }

    #[test]
    fn a_short_lease_takes_no_patience_from_long_ones() {
        let all = batches(vec![due(1, 60_000), due(2, 2_000), due(3, 10_000), due(4, 1_500), due(5, 12_000)], |_| 0);
        let shown: Vec<_> = all.iter().map(|batch| (batch.due.len(), batch.patience)).collect();
        let sixth = |millis| Duration::from_millis(millis) / 6;
        assert_eq!(shown, [(2, sixth(1_500)), (2, sixth(10_000)), (1, sixth(60_000))]);
    }
}
