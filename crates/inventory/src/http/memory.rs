use std::collections::HashMap;

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

/// The same key came with another request.
pub(super) const MISMATCH: ProblemType = ProblemType::IdempotencyMismatch;

impl Memory {
    pub(super) fn new(kind: Kind, key: Option<IdempotencyKey>, target: &Target, body: &[u8]) -> Self {
        Self { kind, kept: key.map(|key| Kept { key, fingerprint: target.fingerprint(body) }) }
    }

    pub(super) fn key(&self) -> Option<&str> {
        self.kept.as_ref().map(|kept| kept.key.as_str())
    }

    /// The earlier answers to these requests, by key.
    pub(super) async fn find(tx: &mut Tx, memories: &[&Self]) -> Result<HashMap<String, Stored>, sqlx::Error> {
        let keys: Vec<_> = memories.iter().filter_map(|memory| memory.key()).collect();
        if keys.is_empty() { Ok(HashMap::new()) } else { db::idempotency::find(tx, &keys).await }
    }

    /// The earlier answer to this request.
    pub(super) fn among(&self, earlier: &HashMap<String, Stored>) -> Result<Option<Stored>, Problem> {
        let Some(kept) = &self.kept else { return Ok(None) };
        match earlier.get(kept.key.as_str()) {
            Some(stored) if stored.fingerprint == kept.fingerprint => Ok(Some(stored.clone())),
            Some(_) => Err(MISMATCH.into()),
            None => Ok(None),
        }
    }

    /// Gives the answer again that [`Memory::among`] found.
    pub(super) fn answer_again(kind: Kind, stored: Stored) -> Response {
        metrics::movement(kind, Outcome::Replayed);
        replay(stored)
    }

    /// The answer to this request.
    pub(super) fn stored(&self, status: StatusCode, body: String) -> Stored {
        let fingerprint = self.kept.as_ref().map_or_else(Fingerprint::default, |kept| kept.fingerprint);
        Stored { fingerprint, status: status.as_u16(), body }
    }

    /// Keeps the answers to those of the requests that have a key. Returns false if another request was answered under
    /// one of the keys first: requests for the same SKU wait for each other, so that one was for another SKU.
    pub(super) async fn keep(tx: &mut Tx, app: &App, answers: &[(&Self, &Stored)]) -> Result<bool, sqlx::Error> {
        let answers: Vec<_> = answers.iter().filter_map(|(memory, stored)| Some((memory.key()?, *stored))).collect();
        Ok(answers.is_empty() || db::idempotency::insert(tx, &answers, app.limits.idempotency_ttl).await?)
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
        let stored = self.refusal(problem, request_id);
        if self.kept.is_none() {
            tx.rollback().await?;
        } else if Self::keep(&mut tx, app, &[(&self, &stored)]).await? {
            tx.commit().await?;
        } else {
            return Err(MISMATCH.into());
        }
        metrics::movement(self.kind, Outcome::Refused);
        Ok(answer(stored))
    }

    /// The answer of a refusal. A replay repeats it to the byte, so it has the id of the request that was refused.
    pub(super) fn refusal(&self, problem: &Problem, request_id: &RequestId) -> Stored {
        self.stored(problem.status(), problem.document(Some(request_id)))
    }
}
