use std::sync::Arc;

/// The announcement that a transaction is about to commit. While the intent stands, a strict cache neither serves nor
/// stores the values of its keys.
///
/// An intent never expires, because a commit may be delayed for any time. It is ended by its transaction, or by a
/// process to which the database says that the transaction is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    /// A unique name.
    pub(crate) id: Arc<str>,
    /// The id of the transaction, from `pg_current_xact_id`.
    pub(crate) xid: Arc<str>,
}

impl Intent {
    /// The name of an intent. It is made before the id of the transaction is known.
    pub(crate) fn random_id() -> Arc<str> {
        format!("{:032x}", rand::random::<u128>()).into()
    }
}
