//! The end of a sale.

use super::{Sale, link::LinkError};
use crate::{
    app::App,
    db::{self, movement::Line},
    domain::{Delta, Kind, Quantity, Reference},
    http::Problem,
    metrics::{self, Outcome},
};

/// Why a sale is not closed yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum CloseError {
    #[error(transparent)]
    Redis(LinkError),
    #[error("the database or the lock of the SKU refused: {}", .0.name())]
    Refused(Problem),
    #[error("the unsold units don't fit into the stock of {0}: lower its quantity")]
    TooMany(String),
}

impl<E: Into<Problem>> From<E> for CloseError {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

/// Closes a sale whose end has begun, and gives back what was not sold. False while entries wait for Postgres.
///
/// Nothing is let in first, and what was let in before is stored; then one transaction closes the sale and gives back.
/// A second caller, or the same one after it was killed in between, finds the sale closed and gives nothing.
pub(super) async fn close(app: &App, sale: &Sale) -> Result<bool, CloseError> {
    let counter = app.flash.counter();
    if counter.close(sale).await.map_err(CloseError::Redis)? > 0 {
        return Ok(false);
    }
    let guard = app.locks.write(&sale.sku).wait(app.limits.lock_wait).acquire().await?;
    let mut tx = guard.begin(&app.pg).await?;
    let Some(closed) = db::flash_sale::close(&mut tx, sale.id).await? else {
        tx.rollback().await?;
        return Ok(true);
    };
    if let Ok(unsold) = Delta::new(closed.unsold()) {
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
    drop(guard);
    metrics::movement(Kind::Flash, Outcome::Applied);
    tracing::info!(sku = %sale.sku, sale = %sale.id, stored = closed.stored, "a sale was closed");
    if let Err(error) = counter.forget(sale).await {
        tracing::debug!(%error, "what was kept for a closed sale stays in Redis until the next one");
    }
    Ok(true)
}

/// What the ledger says of units that go into a sale and come back from it.
pub(crate) fn reference(sale: &Sale) -> Option<Reference> {
    Reference::new(format!("flash sale {}", sale.id)).ok()
}
