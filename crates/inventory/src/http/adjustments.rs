//! `/stock/{sku}/adjustments`

use axum::{
    Extension,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use stockade::Fence;
use utoipa::ToSchema;

use super::{
    JsonBody, Problem, ProblemType, RequestId,
    idempotency::{IdempotencyKey, Target, answer},
    json,
    ledger::{NO_STOCK, commit, line},
    memory::Memory,
    openapi::{self, Endpoint, Header},
};
use crate::{
    app::App,
    db,
    domain::{ApplyError, Delta, Kind, Quantity, Reference, Sku},
};

/// A change of stock, and its reference.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = Adjustment)]
#[serde(deny_unknown_fields, expecting = "an object with the fields `delta` and, if you like, `reference`")]
pub(super) struct Adjust {
    delta: Delta,
    reference: Option<Reference>,
}

/// The stock after an adjustment, and the token of the lock it was made under.
#[derive(Debug, Serialize, ToSchema)]
struct Adjusted<'a> {
    #[schema(value_type = Sku)]
    sku: &'a Sku,
    quantity: Quantity,
    version: u64,
    fencing_token: u64,
}

/// The row of [`adjust`].
pub(super) fn endpoint() -> Endpoint {
    openapi::post(adjust, "Change the stock of a SKU by a number")
        .json::<Adjusted<'static>>(StatusCode::OK, "Applied", &[Header::CacheControl])
        .problems([ProblemType::NotFound, ProblemType::InsufficientStock])
}

/// `POST /stock/{sku}/adjustments`
///
/// Reads, computes and writes in three steps, as any business logic does that is more than one statement. The lock and
/// the fence keep two adjustments apart.
pub(super) async fn adjust(
    State(app): State<App>,
    Extension(request_id): Extension<RequestId>,
    target: Target,
    fence: Fence,
    sku: Sku,
    key: Option<IdempotencyKey>,
    body: JsonBody<Adjust>,
) -> Result<Response, Problem> {
    let memory = Memory::new(Kind::Adjustment, key, &target, &body.bytes);
    let Adjust { delta, reference } = body.value;
    let mut tx = fence.begin(&app.pg).await?;
    if let Some(stored) = memory.find(&mut tx).await? {
        tx.rollback().await?;
        return memory.answer_again(stored);
    }
    let Some(old) = db::stock::find(&mut *tx, &sku).await? else { return Err(NO_STOCK) };
    let quantity = match old.quantity.apply(delta) {
        Ok(quantity) => quantity,
        Err(ApplyError::Insufficient) => {
            let problem = Problem::insufficient_stock(old.quantity.get());
            return memory.refuse(tx, &app, &problem, &request_id).await;
        }
        Err(error) => return Err(Problem::unprocessable(error.to_string())),
    };
    let line = line(&fence, Kind::Adjustment, old.quantity, quantity, reference.as_ref());
    let new = db::stock::update(&mut tx, &sku, quantity, &line).await?;
    let adjusted =
        Adjusted { sku: &new.sku, quantity: new.quantity, version: new.version, fencing_token: fence.token().get() };
    let body = json::to_string(&adjusted)?;
    let stored = memory.keep(&mut tx, &app, StatusCode::OK, body).await?;
    commit(tx, &app, [&sku], Kind::Adjustment).await?;
    Ok((fence, answer(stored)).into_response())
}
