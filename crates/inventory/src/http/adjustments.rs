//! `/stock/{sku}/adjustments`

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use stockade::{Fence, postgres::Tx};

use super::{
    JsonBody, Problem, RequestId,
    idempotency::{IdempotencyKey, Target, answer, replay},
    json,
    ledger::{NO_STOCK, commit, line},
};
use crate::{
    app::App,
    db::{
        self,
        idempotency::{Fingerprint, Stored},
    },
    domain::{ApplyError, Delta, Kind, Quantity, Reference, Sku},
    metrics::{self, Outcome},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the fields `delta` and, if you like, `reference`")]
pub(super) struct Adjust {
    delta: Delta,
    reference: Option<Reference>,
}

#[derive(Debug, Serialize)]
struct Adjusted<'a> {
    sku: &'a Sku,
    quantity: Quantity,
    version: u64,
    fencing_token: u64,
}

/// The memory of an answer, for a request that carries an Idempotency-Key.
struct Memory {
    key: IdempotencyKey,
    fingerprint: Fingerprint,
}

/// `POST /stock/{sku}/adjustments`
///
/// Reads, computes and writes in three steps, as any business logic does that is more than one statement; the lock and
/// the fence are what keep two of them apart.
pub(super) async fn adjust(
    State(app): State<App>,
    request_id: RequestId,
    target: Target,
    fence: Fence,
    sku: Sku,
    key: Option<IdempotencyKey>,
    body: JsonBody<Adjust>,
) -> Result<Response, Problem> {
    let memory = key.map(|key| Memory { key, fingerprint: target.fingerprint(&body.bytes) });
    let Adjust { delta, reference } = body.value;
    let mut tx = fence.begin(&app.pg).await?;
    if let Some(memory) = &memory
        && let Some(stored) = db::idempotency::find(&mut tx, memory.key.as_str()).await?
    {
        tx.rollback().await?;
        return memory.answer_again(stored);
    }
    let Some(old) = db::stock::find(&mut *tx, &sku).await? else { return Err(NO_STOCK) };
    let quantity = match old.quantity.apply(delta) {
        Ok(quantity) => quantity,
        Err(ApplyError::Insufficient) => {
            let problem = Problem::InsufficientStock { available: old.quantity.get() };
            return refuse(tx, &app, memory, &problem, &request_id).await;
        }
        Err(error) => return Err(Problem::Unprocessable(error.to_string().into())),
    };
    let line = line(&fence, Kind::Adjustment, old.quantity, quantity, reference.as_ref());
    let new = db::stock::update(&mut tx, &sku, quantity, &line).await?;
    let adjusted =
        Adjusted { sku: &new.sku, quantity: new.quantity, version: new.version, fencing_token: fence.token().get() };
    let body = json::to_string(&adjusted)?;
    let stored = remember(&mut tx, &app, memory, StatusCode::OK, body).await?;
    commit(tx, &app, &sku, Kind::Adjustment).await?;
    Ok((fence, answer(stored)).into_response())
}

impl Memory {
    fn answer_again(&self, stored: Stored) -> Result<Response, Problem> {
        if stored.fingerprint != self.fingerprint {
            return Err(Problem::IdempotencyMismatch);
        }
        metrics::movement(Kind::Adjustment, Outcome::Replayed);
        Ok(replay(stored))
    }
}

/// Answers a refusal on business grounds. With an Idempotency-Key it is remembered, and so committed, as a success is.
async fn refuse(
    mut tx: Tx,
    app: &App,
    memory: Option<Memory>,
    problem: &Problem,
    request_id: &RequestId,
) -> Result<Response, Problem> {
    let remembered = memory.is_some();
    // A replay repeats this body to the byte, so it keeps the id of the request that was refused.
    let stored = remember(&mut tx, app, memory, problem.status(), problem.document(Some(request_id))).await?;
    if remembered {
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    metrics::movement(Kind::Adjustment, Outcome::Refused);
    Ok(answer(stored))
}

/// The answer, kept in the transaction where a key asks for that.
async fn remember(
    tx: &mut Tx,
    app: &App,
    memory: Option<Memory>,
    status: StatusCode,
    body: String,
) -> Result<Stored, Problem> {
    let Some(Memory { key, fingerprint }) = memory else {
        return Ok(Stored { fingerprint: Fingerprint::default(), status: status.as_u16(), body });
    };
    let stored = Stored { fingerprint, status: status.as_u16(), body };
    if !db::idempotency::insert(tx, key.as_str(), &stored, app.limits.idempotency_ttl).await? {
        // Requests for the same SKU wait for each other, so the other one was for another SKU.
        return Err(Problem::IdempotencyMismatch);
    }
    Ok(stored)
}
