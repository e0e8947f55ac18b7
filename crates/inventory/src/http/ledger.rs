//! What every write ends with: a line in the ledger, an invalidation, a commit.

use sqlx::PgConnection;
use stockade::{Fence, postgres::Tx};

use super::Problem;
use crate::{
    app::App,
    db::{self, movement::Entry},
    domain::{Kind, Quantity, Reference, Sku, Stock},
    metrics::{self, Outcome},
};

/// The answer to a write that needs stock where there is none.
pub(super) const NO_STOCK: Problem = Problem::NotFound("there is no stock of this SKU");

/// Writes the step from `old` to `new` into the ledger; no step, no line.
pub(super) async fn record(
    connection: &mut PgConnection,
    fence: &Fence,
    kind: Kind,
    old: Quantity,
    new: &Stock,
    reference: Option<&Reference>,
) -> Result<(), Problem> {
    let Some(delta) = new.quantity.since(old) else { return Ok(()) };
    let entry = Entry {
        sku: &new.sku,
        kind,
        delta,
        quantity: new.quantity,
        version: new.version,
        reference,
        fencing_token: fence.token().get(),
    };
    Ok(db::movement::insert(connection, &entry).await?)
}

/// Commits a change of `sku` and drops what is cached of it.
pub(super) async fn commit(mut tx: Tx, app: &App, sku: &Sku, kind: Kind) -> Result<(), Problem> {
    tx.invalidate(&app.stocks, sku);
    tx.commit().await?;
    metrics::movement(kind, Outcome::Applied);
    Ok(())
}
