//! `/transfers`

use std::collections::BTreeMap;

use axum::{
    Extension,
    extract::{FromRequest, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use stockade::{
    lock::MultiFence,
    resource::{Key, KeyError},
};
use utoipa::ToSchema;

use super::{
    JsonBody, Problem, ProblemType, RequestId,
    idempotency::{IdempotencyKey, Target, answer},
    json,
    ledger::{commit, line},
    memory::{MISMATCH, Memory},
    openapi::{self, Endpoint, Header, Operation, Takes},
};
use crate::{
    app::App,
    db,
    domain::{ApplyError, Kind, Quantity, Reference, Sku, Stock, Units},
};

/// The SKUs and the units of a transfer, and its reference.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = Transfer)]
#[serde(
    deny_unknown_fields,
    expecting = "an object with the fields `from`, `to`, `quantity` and, if you like, `reference`"
)]
pub(super) struct Asked {
    from: Sku,
    #[schema(example = "71053")]
    to: Sku,
    quantity: Units,
    reference: Option<Reference>,
}

/// A transfer between two SKUs, from a request's body.
#[derive(Debug)]
pub(super) struct Transfer(JsonBody<Asked>);

impl Transfer {
    /// The resources that are locked for the transfer.
    pub(super) fn keys(&self) -> [Result<Key, KeyError>; 2] {
        let Asked { from, to, .. } = &self.0.value;
        [Key::of(from), Key::of(to)]
    }
}

impl<S: Send + Sync> FromRequest<S> for Transfer {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = JsonBody::<Asked>::from_request(request, state).await?;
        if body.value.from == body.value.to {
            return Err(ProblemType::SameSku.into());
        }
        Ok(Self(body))
    }
}

/// The stock of both SKUs afterwards, and the token of each lock by its SKU.
#[derive(Debug, Serialize, ToSchema)]
struct Transferred<'a> {
    #[schema(value_type = Stock)]
    from: &'a Stock,
    #[schema(value_type = Stock)]
    to: &'a Stock,
    #[schema(value_type = BTreeMap<String, u64>)]
    fencing_tokens: BTreeMap<&'a str, u64>,
}

impl Takes for Transfer {
    fn takes(operation: &mut Operation) {
        JsonBody::<Asked>::takes(operation);
        operation.problems([ProblemType::SameSku]);
    }
}

/// The row of [`transfer`].
pub(super) fn endpoint() -> Endpoint {
    openapi::post(transfer, "Move units from one SKU to another, in one transaction")
        .json::<Transferred<'static>>(StatusCode::OK, "Moved", &[Header::CacheControl])
        .problems([ProblemType::NotFound, ProblemType::InsufficientStock])
}

/// `POST /transfers`
///
/// The layer has locked both SKUs, and one transaction claims both fences: two transfers in opposite directions take
/// their turns, and neither sees half of the other.
pub(super) async fn transfer(
    State(app): State<App>,
    Extension(request_id): Extension<RequestId>,
    target: Target,
    fences: MultiFence,
    key: Option<IdempotencyKey>,
    Transfer(body): Transfer,
) -> Result<Response, Problem> {
    let memory = Memory::new(Kind::Transfer, key, &target, &body.bytes);
    let Asked { from, to, quantity: units, reference } = body.value;
    let mut tx = fences.begin(&app.pg).await?;
    let earlier = Memory::find(&mut tx, &[&memory]).await?;
    if let Some(stored) = memory.among(&earlier)? {
        tx.rollback().await?;
        return Ok(Memory::answer_again(Kind::Transfer, stored));
    }
    let skus = [from, to];
    let old = both(db::stock::find_all(&mut *tx, &skus).await?, &skus)?;
    let new = match quantities(&old, units) {
        Ok(new) => new,
        Err(ApplyError::Insufficient) => {
            let problem = Problem::insufficient_stock(old[0].quantity.get());
            return memory.refuse(tx, &app, &problem, &request_id).await;
        }
        Err(error) => return Err(Problem::unprocessable(format!("{error} in `to`"))),
    };
    let mut changed = Vec::with_capacity(skus.len());
    for ((fence, old), quantity) in fences.iter().zip(old).zip(new) {
        let line = line(fence, Kind::Transfer, old.quantity, quantity, reference.as_ref());
        changed.push(db::stock::update(&mut tx, &old.sku, quantity, &line).await?);
    }
    let [from, to] = changed.as_slice() else { return Err(ProblemType::Internal.into()) };
    let fencing_tokens = skus.iter().map(Sku::as_str).zip(fences.tokens().map(|token| token.get())).collect();
    let body = json::to_string(&Transferred { from, to, fencing_tokens })?;
    let stored = memory.stored(StatusCode::OK, body);
    if !Memory::keep(&mut tx, &app, &[(&memory, &stored)]).await? {
        return Err(MISMATCH.into());
    }
    commit(tx, &app, &skus, Kind::Transfer).await?;
    Ok((fences, answer(stored)).into_response())
}

/// The stock of both, in their order.
fn both(found: Vec<Stock>, [_, to]: &[Sku; 2]) -> Result<[Stock; 2], Problem> {
    let mut of = [None, None];
    for stock in found {
        let place = usize::from(stock.sku == *to);
        of[place] = Some(stock);
    }
    match of {
        [Some(from), Some(to)] => Ok([from, to]),
        [None, Some(_)] => Err(Problem::not_found("there is no stock of the SKU in `from`")),
        [Some(_), None] => Err(Problem::not_found("there is no stock of the SKU in `to`")),
        [None, None] => Err(Problem::not_found("there is no stock of the SKUs in `from` and `to`")),
    }
}

/// The stock of both SKUs after the transfer.
fn quantities([from, to]: &[Stock; 2], units: Units) -> Result<[Quantity; 2], ApplyError> {
    Ok([from.quantity.apply(units.taken())?, to.quantity.apply(units.added())?])
}
