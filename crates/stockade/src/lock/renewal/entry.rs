use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    store::{Ownership, Recall},
};

/// A shared ownership is recalled at this age, so that no transaction begins under a token that is much older.
const OLDEST_SHARED: Duration = Duration::from_secs(300);

/// An ownership that is renewed until it is ended, lost or at the end of its longest hold.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) ownership: Arc<Ownership>,
    /// Its time in the agenda.
    pub(super) at: Instant,
    pub(super) added: Instant,
    /// `None` while a renewal is on its way.
    pub(super) renew_at: Option<Instant>,
    /// The end of the longest hold that its request allowed.
    pub(super) ends_at: Option<Instant>,
}

impl Entry {
    /// The next time at which something must happen, even if a renewal is still under way.
    pub(super) fn next(&self) -> Instant {
        let deadline = self.ownership.deadline();
        let end = self.ends_at.map_or(deadline, |end| end.min(deadline));
        self.renew_at.map_or(end, |renew| renew.min(end))
    }

    /// Whether to renew it. A shared ownership is recalled if no reader has used it since its last renewal, or if it
    /// has reached its greatest age. After the recall it is renewed only while readers are inside.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        let Some(readers) = self.ownership.readers() else { return true };
        if readers.rested() {
            readers.recall(Recall::Unused);
        } else if now.since(self.added) >= OLDEST_SHARED {
            readers.recall(Recall::Old);
        }
        readers.recalled().is_none() || !readers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lock::{Mode, Token},
        resource::Key,
        store::{Owner, Readers},
    };

    #[test]
    fn what_readers_share_is_recalled_when_it_is_old_and_renewed_while_one_is_inside() {
        let readers = Arc::<Readers>::default();
        let (added, lease) = (Instant::now(), Duration::from_secs(2));
        let (key, owner) = (Key::new("stock", "1").unwrap(), Owner::new("a".repeat(28)));
        let ownership = Ownership::new(key, owner, Mode::Read, Token::new(7).unwrap(), lease, added + lease, None);
        let ownership = Arc::new(ownership.shared_by(Some(Arc::clone(&readers))));
        let entry = Entry { ownership, at: added, added, renew_at: None, ends_at: None };
        assert!(readers.enter());
        assert!(entry.is_wanted(added + (OLDEST_SHARED - lease)));
        assert_eq!(readers.recalled(), None);
        assert!(entry.is_wanted(added + OLDEST_SHARED), "somebody is inside");
        assert_eq!(readers.recalled(), Some(Recall::Old));
        readers.leave();
        assert!(!entry.is_wanted(added + OLDEST_SHARED));
    }
}
