use std::{sync::Arc, time::Duration};

/// From this age on whoever meets an intent asks what became of its transaction.
pub(crate) const OVERDUE: Duration = Duration::from_secs(2);
/// The announcement of a transaction that is about to commit. While it stands, what it writes is neither served nor
/// stored by a strict cache.
///
/// It never ends by time: the commit may be held up for longer than any time that could be named. It ends when the
/// transaction says so, or when the database says that the transaction is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    /// Unique.
    pub(crate) id: Arc<str>,
    /// The transaction, as `pg_current_xact_id` names it.
    pub(crate) xid: Arc<str>,
}

impl Intent {
    /// A name for an intent whose transaction will be known later.
    pub(crate) fn random_id() -> Arc<str> {
        format!("{:032x}", rand::random::<u128>()).into()
    }
}
