use axum::{http::StatusCode, response::Response};
use stockade::postgres::Tx;

use super::{
    Problem, ProblemType, RequestId,
    idempotency::{IdempotencyKey, Target, answer, replay},
};
use crate::{
    app::App,
    db::{
        self,
        idempotency::{Fingerprint, Stored},
    },
    domain::Kind,
    metrics::{self, Outcome},
};

/// The memory of an answer. A request without an Idempotency-Key has none: nothing is found there, nothing is kept.
pub(super) struct Memory {
    kind: Kind,
    kept: Option<Kept>,
}

struct Kept {
    key: IdempotencyKey,
    fingerprint: Fingerprint,
}

impl Memory {
    pub(super) fn new(kind: Kind, key: Option<IdempotencyKey>, target: &Target, body: &[u8]) -> Self {
        Self { kind, kept: key.map(|key| Kept { key, fingerprint: target.fingerprint(body) }) }
    }

    /// The earlier answer to this request.
    pub(super) async fn find(&self, tx: &mut Tx) -> Result<Option<Stored>, Problem> {
        let Some(Kept { key, .. }) = &self.kept else { return Ok(None) };
        Ok(db::idempotency::find(tx, key.as_str()).await?)
    }

    /// Gives the answer again that [`Memory::find`] found.
    pub(super) fn answer_again(&self, stored: Stored) -> Result<Response, Problem> {
        if self.kept.as_ref().is_none_or(|kept| kept.fingerprint != stored.fingerprint) {
            return Err(ProblemType::IdempotencyMismatch.into());
        }
        metrics::movement(self.kind, Outcome::Replayed);
        Ok(replay(stored))
    }

    /// The answer, which the transaction also keeps if the request has a key.
    pub(super) async fn keep(
        self,
        tx: &mut Tx,
        app: &App,
        status: StatusCode,
        body: String,
    ) -> Result<Stored, Problem> {
        let status = status.as_u16();
        let Some(Kept { key, fingerprint }) = self.kept else {
            return Ok(Stored { fingerprint: Fingerprint::default(), status, body });
        };
        let stored = Stored { fingerprint, status, body };
        if !db::idempotency::insert(tx, key.as_str(), &stored, app.limits.idempotency_ttl).await? {
            // Requests for the same SKU wait for each other, so the other one was for another SKU.
            return Err(ProblemType::IdempotencyMismatch.into());
        }
        Ok(stored)
    }

    /// Answers a refusal on business grounds. With an Idempotency-Key the refusal is kept, and so committed, as a
    /// success is.
    pub(super) async fn refuse(
        self,
        mut tx: Tx,
        app: &App,
        problem: &Problem,
        request_id: &RequestId,
    ) -> Result<Response, Problem> {
        let (kind, remembered) = (self.kind, self.kept.is_some());
        // A replay repeats this body to the byte, so it keeps the id of the request that was refused.
        let stored = self.keep(&mut tx, app, problem.status(), problem.document(Some(request_id))).await?;
        if remembered {
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        metrics::movement(kind, Outcome::Refused);
        Ok(answer(stored))
    }
}
