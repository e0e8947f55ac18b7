//! `/stock/{sku}/adjustments`

use axum::{
    Extension,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use stockade::{Fence, postgres::GroupCommit};
use utoipa::ToSchema;

use super::{
    JsonBody, Problem, ProblemType, RequestId,
    adjusting::{Adjusted, Adjusting, Adjustment, Outcome},
    idempotency::{IdempotencyKey, Target, answer},
    memory::Memory,
    openapi::{self, Endpoint, Header},
};
use crate::{
    domain::{Delta, Kind, Reference, Sku},
    metrics,
};

/// A change of stock, and its reference.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = Adjustment)]
#[serde(deny_unknown_fields, expecting = "an object with the fields `delta` and, if you like, `reference`")]
pub(super) struct Adjust {
    delta: Delta,
    reference: Option<Reference>,
}

/// The row of [`adjust`].
pub(super) fn endpoint() -> Endpoint {
    openapi::post(adjust, "Change the stock of a SKU by a number")
        .json::<Adjusted<'static>>(StatusCode::OK, "Applied", &[Header::CacheControl])
        .problems([ProblemType::NotFound, ProblemType::InsufficientStock])
}

/// `POST /stock/{sku}/adjustments`
pub(super) async fn adjust(
    Extension(adjusting): Extension<GroupCommit<Adjusting>>,
    Extension(request_id): Extension<RequestId>,
    target: Target,
    fence: Fence,
    sku: Sku,
    key: Option<IdempotencyKey>,
    body: JsonBody<Adjust>,
) -> Result<Response, Problem> {
    let memory = Memory::new(Kind::Adjustment, key, &target, &body.bytes);
    let Adjust { delta, reference } = body.value;
    // An error of the transaction, then one of this adjustment.
    match adjusting.write(&fence, Adjustment { sku, delta, reference, memory, request_id }).await?? {
        Outcome::Applied(stored) => {
            metrics::movement(Kind::Adjustment, metrics::Outcome::Applied);
            Ok((fence, answer(stored)).into_response())
        }
        Outcome::Refused(stored) => {
            metrics::movement(Kind::Adjustment, metrics::Outcome::Refused);
            Ok(answer(stored))
        }
        Outcome::Again(stored) => Ok(Memory::answer_again(Kind::Adjustment, stored)),
    }
}
