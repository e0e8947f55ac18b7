use super::super::{Tx, WriteError};
use crate::Fence;

/// How changes are written that share a transaction: see [`GroupCommit`](super::GroupCommit).
pub trait GroupWrite: Send + Sync + 'static {
    /// What a caller asks for.
    type Change: Send + Sync + 'static;
    /// What a caller gets if the transaction commits.
    type Answer: Send + 'static;
    /// What a caller gets otherwise. [`WriteError`] will do.
    type Error: From<WriteError> + Send + 'static;

    /// Makes these changes in `tx`, which holds the claims of all their fences, and returns an answer for each, in
    /// their order. No two are of one resource. A change that is refused on business grounds is left out, and its
    /// answer says so.
    ///
    /// After an error nothing is applied. If it was of several changes, each is then made once more in a transaction of
    /// its own, so an error of one change is the error of that one only. A change whose error came after 50 ms or more
    /// is made once more, too, because its row may have been held. The call must therefore do nothing beyond the
    /// transaction. If none of the changes is to be applied, say so by [`Tx::apply_nothing`].
    fn write(
        &self,
        tx: &mut Tx,
        changes: &[(Fence, Self::Change)],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Self::Error>> + Send;
}
