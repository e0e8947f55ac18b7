//! `/flash/{sku}`

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use stockade::{Fence, extract::CachePolicy, postgres::Tx};
use time::{OffsetDateTime, UtcOffset};
use tokio::time::{Instant, sleep};
use utoipa::ToSchema;

use super::{
    JsonBody, Problem, ProblemType,
    error::unread,
    ledger::{NO_STOCK, commit, line},
    openapi::{self, Endpoint, Header},
};
use crate::{
    app::App,
    console::chain,
    db,
    domain::{ApplyError, Kind, Sku, Units},
    flash::{Sale, Stage, reference},
};

/// The answer if there is no sale.
pub(super) const NO_SALE: Problem = Problem::not_found("there is no flash sale of this SKU");

/// How often a request for the end of a sale looks whether it is closed.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// The settings of a new sale.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OpenSale)]
#[serde(deny_unknown_fields, expecting = "an object with the fields `quantity`, `per_customer` and `ends_at`")]
pub(super) struct Open {
    quantity: Units,
    per_customer: Units,
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime, example = "2030-01-01T12:00:00Z")]
    ends_at: OffsetDateTime,
}

/// A flash sale: units opened, reserved, stored in the database, and left.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlashSale)]
pub(super) struct Shown {
    sku: Sku,
    /// `opening`, `open`, `ended`, `closing` or `closed`.
    state: &'static str,
    opened: i64,
    reserved: i64,
    stored: i64,
    remaining: i64,
    per_customer: i64,
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    ends_at: OffsetDateTime,
}

impl Shown {
    /// `left` is what the counter of an open sale says; `None` if the counter is not there yet.
    fn of(sale: Sale, left: Option<i64>) -> Self {
        let (state, remaining) = match (sale.stage, left) {
            (Stage::Closed, _) => ("closed", 0),
            (Stage::Closing, _) => ("closing", 0),
            (Stage::Open, None) => ("opening", sale.unsold()),
            (Stage::Open, Some(left)) if sale.ends_at <= OffsetDateTime::now_utc() => ("ended", left),
            (Stage::Open, Some(left)) => ("open", left),
        };
        Self {
            state,
            opened: sale.opened,
            reserved: left.map_or(sale.stored, |left| sale.opened - left),
            stored: sale.stored,
            remaining,
            per_customer: sale.per_customer,
            ends_at: sale.ends_at,
            sku: sale.sku,
        }
    }
}

/// The rows of these handlers, without the one that runs under the lock of the SKU.
pub(super) fn endpoints() -> [Endpoint; 2] {
    [
        openapi::get(show, "How a flash sale stands")
            .json::<Shown>(StatusCode::OK, "The newest sale of the SKU", &[Header::CacheControl])
            .problems([ProblemType::NotFound, ProblemType::LockStoreUnavailable])
            .problems([ProblemType::DatabaseUnavailable, ProblemType::FenceBusy]),
        openapi::delete(close, "Close a flash sale and give unsold units back to stock")
            .json::<Shown>(
                StatusCode::OK,
                "Closed, or `closing` while reservations are stored",
                &[Header::CacheControl],
            )
            .problems([ProblemType::NotFound, ProblemType::LockStoreUnavailable, ProblemType::OutcomeUnknown])
            .problems([ProblemType::DatabaseUnavailable, ProblemType::FenceBusy]),
    ]
}

/// The row of [`open`].
pub(super) fn opening() -> Endpoint {
    openapi::put(open, "Open a flash sale: move units out of stock")
        .json::<Shown>(StatusCode::CREATED, "Opened", &[Header::Location, Header::CacheControl])
        .problems([ProblemType::NotFound, ProblemType::InsufficientStock, ProblemType::SaleOpen])
}

/// `PUT /flash/{sku}`
pub(super) async fn open(
    State(app): State<App>,
    fence: Fence,
    sku: Sku,
    body: JsonBody<Open>,
) -> Result<Response, Problem> {
    let Open { quantity, per_customer, ends_at } = body.value;
    let Some(ends_at) = ends_at.checked_to_offset(UtcOffset::UTC) else {
        return Err(Problem::unprocessable("`ends_at` is not within the years 0 to 9999 in UTC: name another time"));
    };
    if ends_at <= OffsetDateTime::now_utc() {
        return Err(Problem::unprocessable("`ends_at` is in the past: name a later time"));
    }
    let mut tx = fence.begin(&app.pg).await?;
    let Some(old) = db::stock::find(&mut *tx, &sku).await? else { return Err(NO_STOCK) };
    if db::flash_sale::newest(&mut *tx, &sku).await?.is_some_and(|sale| sale.stage != Stage::Closed) {
        return Err(ProblemType::SaleOpen.into());
    }
    let left = match old.quantity.apply(quantity.taken()) {
        Ok(left) => left,
        Err(ApplyError::Insufficient) => {
            return Err(Problem::insufficient_stock(old.quantity.get()));
        }
        Err(error) => return Err(Problem::unprocessable(error.to_string())),
    };
    let sale = db::flash_sale::insert(&mut tx, &sku, quantity, per_customer, ends_at).await?;
    let reference = reference(&sale);
    let line = line(&fence, Kind::Flash, old.quantity, left, reference.as_ref());
    db::stock::update(&mut tx, &sku, left, &line).await?;
    commit(tx, &app, [&sku], Kind::Flash).await?;
    app.flash.open(&app.pg, &sale).await;
    // The sale is open whether or not its counter answers. The keeper makes a counter that is missing.
    let left = app.flash.left(&sale).await.unwrap_or_else(|error| {
        tracing::warn!(error = %chain(&error), sku = %sku, "a flash sale was opened, and its counter does not answer");
        None
    });
    let location = [(header::LOCATION, format!("/flash/{}", sku.path_segment()))];
    Ok((StatusCode::CREATED, fence, location, CachePolicy::no_store(), Json(Shown::of(sale, left))).into_response())
}

/// `GET /flash/{sku}`
pub(super) async fn show(State(app): State<App>, sku: Sku) -> Result<Response, Problem> {
    let sale = db::flash_sale::newest(&app.pg, &sku).await?.ok_or(NO_SALE)?;
    let left = match sale.stage {
        Stage::Open => app.flash.left(&sale).await.map_err(|error| unread(&error))?,
        Stage::Closing | Stage::Closed => None,
    };
    Ok((CachePolicy::no_store(), Json(Shown::of(sale, left))).into_response())
}

/// `DELETE /flash/{sku}`
///
/// Marks the sale as closing. The keeper of any instance then closes it, so it also closes if this instance dies.
pub(super) async fn close(State(app): State<App>, sku: Sku) -> Result<Response, Problem> {
    let mut tx = Tx::unfenced(&app.pg).await?;
    let closing = db::flash_sale::begin_closing(&mut *tx, &sku).await?;
    tx.commit().await?;
    let sale = match closing {
        Some(sale) => closed(&app, sale).await,
        None => db::flash_sale::newest(&app.pg, &sku).await?.ok_or(NO_SALE)?,
    };
    Ok((CachePolicy::no_store(), Json(Shown::of(sale, None))).into_response())
}

/// The sale as it is once it is closed, or after a while. The sale ends in any case, so an error of the database only
/// ends the wait.
async fn closed(app: &App, mut sale: Sale) -> Sale {
    app.flash.nudge();
    let deadline = Instant::now() + app.limits.lock_wait;
    while sale.stage != Stage::Closed && Instant::now() < deadline {
        sleep(LOOK).await;
        match db::flash_sale::find(&app.pg, sale.id).await {
            Ok(found) => sale = found,
            Err(error) => {
                tracing::warn!(error = %chain(&error), sku = %sale.sku, "a closing flash sale can't be looked at");
                break;
            }
        }
    }
    sale
}
