//! The end of a sale.

use stockade::{
    Guard,
    lock::LockError,
    postgres::{CommitError, FenceError},
};

use super::{Sale, link::LinkError};
use crate::{
    app::App,
    db::{self, movement::Line},
    domain::{Delta, Kind, Quantity, Reference},
    metrics::{self, Outcome},
};

/// Why a sale is not closed yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum CloseError {
    #[error(transparent)]
    Redis(#[from] LinkError),
    #[error("there is no lock of the SKU")]
    Lock(#[from] LockError),
    #[error("there is no transaction under the lock of the SKU")]
    Fence(#[from] FenceError),
    #[error("a statement failed")]
    Database(#[from] sqlx::Error),
    #[error("the end of the sale may not be committed")]
    Commit(#[from] CommitError),
    #[error("the unsold units don't fit into the stock of {0}: lower its quantity")]
    TooMany(String),
}

impl CloseError {
    /// Counts the errors that requests count too.
    fn count(&self) {
        match self {
            Self::Fence(FenceError::Rejected { .. }) => metrics::fence_rejected(),
            Self::Fence(FenceError::Sqlx(sqlx::Error::PoolTimedOut))
            | Self::Database(sqlx::Error::PoolTimedOut)
            | Self::Commit(CommitError::NotApplied(sqlx::Error::PoolTimedOut)) => metrics::database_timed_out(),
            _ => {}
        }
    }
}

/// Closes a sale whose end has begun, and gives unsold units back. False while entries wait for Postgres.
///
/// First the counter closes, and all that it let in is stored. Then one transaction closes the sale and gives back. A
/// second caller, or the same one after it was killed in between, finds the sale closed and gives nothing.
pub(super) async fn close(app: &App, sale: &Sale) -> Result<bool, CloseError> {
    try_close(app, sale).await.inspect_err(CloseError::count)
}

async fn try_close(app: &App, sale: &Sale) -> Result<bool, CloseError> {
    if app.flash.counter().close(&sale.sku, sale.id).await? > 0 {
        return Ok(false);
    }
    let guard = app.locks.write(&sale.sku).wait(app.limits.lock_wait).acquire().await?;
    app.flash.answered(Box::pin(give_back(app, sale, &guard))).await?;
    Ok(true)
}

/// The transaction that closes the sale and gives unsold units back, unless it is closed already.
async fn give_back(app: &App, sale: &Sale, guard: &Guard) -> Result<(), CloseError> {
    let mut tx = guard.begin(&app.pg).await?;
    let Some(closed) = db::flash_sale::close(&mut tx, sale.id).await? else {
        return Ok(tx.rollback().await?);
    };
    let unsold = Delta::new(closed.unsold()).ok();
    if let Some(unsold) = unsold {
        let old = db::stock::find(&mut *tx, &sale.sku).await?;
        let on_hand = old.as_ref().map_or(Quantity::ZERO, |stock| stock.quantity);
        let quantity = on_hand.apply(unsold).map_err(|_| CloseError::TooMany(sale.sku.to_string()))?;
        let reference = reference(sale);
        let line = Line {
            kind: Kind::Flash,
            delta: Some(unsold),
            reference: reference.as_ref(),
            fencing_token: guard.token().get(),
        };
        match old {
            Some(_) => db::stock::update(&mut tx, &sale.sku, quantity, &line).await?,
            // The SKU was deleted meanwhile.
            None => {
                app.creates(&mut tx, &sale.sku);
                db::stock::insert(&mut tx, &sale.sku, quantity, &line).await?
            }
        };
        tx.invalidate(&app.stocks, &sale.sku);
    }
    tx.commit().await?;
    if unsold.is_some() {
        metrics::movement(Kind::Flash, Outcome::Applied);
    }
    tracing::info!(sku = %sale.sku, sale = %sale.id, stored = closed.stored, "a sale was closed");
    Ok(())
}

/// The reference in the ledger for units that go into a sale and come back from it.
pub(crate) fn reference(sale: &Sale) -> Option<Reference> {
    Reference::try_from(format!("flash sale {}", sale.id)).ok()
}
