//! The end of every write: a line in the ledger, an invalidation, a commit.

use stockade::{Fence, postgres::Tx};

use super::Problem;
use crate::{
    app::App,
    db::movement::Line,
    domain::{Kind, Quantity, Reference, Sku},
    metrics::{self, Outcome},
};

/// The answer to a write that needs stock if there is none.
pub(super) const NO_STOCK: Problem = Problem::not_found("there is no stock of this SKU");

/// The line of the ledger for the change from `old` to `new`. It is not written if they are equal.
pub(super) fn line<'a>(
    fence: &Fence,
    kind: Kind,
    old: Quantity,
    new: Quantity,
    reference: Option<&'a Reference>,
) -> Line<'a> {
    Line { kind, delta: new.since(old), reference, fencing_token: fence.token().get() }
}

/// Commits a change of `skus` and drops their cached values.
pub(super) async fn commit(
    mut tx: Tx,
    app: &App,
    skus: impl IntoIterator<Item = &Sku>,
    kind: Kind,
) -> Result<(), Problem> {
    for sku in skus {
        tx.invalidate(&app.stocks, sku);
    }
    tx.commit().await?;
    metrics::movement(kind, Outcome::Applied);
    Ok(())
}
