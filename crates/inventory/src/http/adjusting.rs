//! Adjustments of different SKUs that arrive at the same time share a transaction.

use std::collections::{HashMap, HashSet};

use axum::http::StatusCode;
use serde::Serialize;
use stockade::{
    Fence,
    postgres::{GroupWrite, Tx, WriteError},
};
use utoipa::ToSchema;

use super::{
    Problem, RequestId, json,
    ledger::{NO_STOCK, line},
    memory::{MISMATCH, Memory},
};
use crate::{
    app::App,
    db::{self, idempotency::Stored, movement::Line},
    domain::{ApplyError, Delta, Kind, Quantity, Reference, Sku, Stock},
};

/// An adjustment that a request asks for.
pub(super) struct Adjustment {
    pub(super) sku: Sku,
    pub(super) delta: Delta,
    pub(super) reference: Option<Reference>,
    pub(super) memory: Memory,
    pub(super) request_id: RequestId,
}

/// The stock after an adjustment, and the token of the lock it was made under.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Adjusted<'a> {
    #[schema(value_type = Sku)]
    sku: &'a Sku,
    quantity: Quantity,
    version: u64,
    fencing_token: u64,
}

/// What became of an adjustment.
#[derive(Clone)]
pub(super) enum Outcome {
    Applied(Stored),
    /// Refused on business grounds.
    Refused(Stored),
    /// Answered earlier, to the same request.
    Again(Stored),
}

/// Why a whole transaction failed. Each of its adjustments is then made by itself.
pub(super) enum AdjustError {
    /// An adjustment of another SKU was answered under one of the keys meanwhile.
    KeyTaken,
    Write(WriteError),
}

impl From<WriteError> for AdjustError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<sqlx::Error> for AdjustError {
    fn from(error: sqlx::Error) -> Self {
        Self::Write(error.into())
    }
}

impl From<AdjustError> for Problem {
    fn from(error: AdjustError) -> Self {
        match error {
            AdjustError::KeyTaken => MISMATCH.into(),
            AdjustError::Write(error) => error.into(),
        }
    }
}

/// Makes adjustments in the database of the service.
pub(super) struct Adjusting(pub(super) App);

/// Reads, computes and writes in three steps, as any business logic does that is more than one statement. The locks and
/// the fences keep two adjustments of one SKU apart.
impl GroupWrite for Adjusting {
    type Change = Adjustment;
    type Answer = Result<Outcome, Problem>;
    type Error = AdjustError;

    async fn write(
        &self,
        tx: &mut Tx,
        changes: &[(Fence, Adjustment)],
    ) -> Result<Vec<Result<Outcome, Problem>>, AdjustError> {
        let memories: Vec<_> = changes.iter().map(|(_, adjustment)| &adjustment.memory).collect();
        let skus: Vec<_> = changes.iter().map(|(_, adjustment)| adjustment.sku.clone()).collect();
        let earlier = Memory::find(tx, &memories).await?;
        let old = by_sku(db::stock::find_all(&mut **tx, &skus).await?);
        let mut keys = HashSet::new();
        let mut steps = Vec::with_capacity(changes.len());
        for (fence, asked) in changes {
            let step = asked.decide(fence, &earlier, &old);
            // The same key for two SKUs: the first answer that is kept has it.
            let is_taken = step.is_kept() && asked.memory.key().is_some_and(|key| !keys.insert(key));
            steps.push(if is_taken { Step::Answer(Err(MISMATCH.into())) } else { step });
        }
        let lines: Vec<_> = steps.iter().filter_map(Step::change).collect();
        let new = if lines.is_empty() { HashMap::new() } else { by_sku(db::stock::update_all(tx, &lines).await?) };
        let mut answers = Vec::with_capacity(changes.len());
        for ((fence, asked), step) in changes.iter().zip(&steps) {
            answers.push(match step {
                Step::Answer(answer) => answer.clone(),
                Step::Change(..) => {
                    tx.invalidate(&self.0.stocks, &asked.sku);
                    asked.applied(fence, new.get(&asked.sku).ok_or(sqlx::Error::RowNotFound)?)
                }
            });
        }
        let kept = memories.into_iter().zip(&answers).filter_map(|(memory, answer)| match answer {
            Ok(Outcome::Applied(stored) | Outcome::Refused(stored)) if memory.key().is_some() => Some((memory, stored)),
            _ => None,
        });
        let kept: Vec<_> = kept.collect();
        if lines.is_empty() && kept.is_empty() {
            tx.apply_nothing();
        }
        if Memory::keep(tx, &self.0, &kept).await? { Ok(answers) } else { Err(AdjustError::KeyTaken) }
    }
}

fn by_sku(stocks: Vec<Stock>) -> HashMap<Sku, Stock> {
    stocks.into_iter().map(|stock| (stock.sku.clone(), stock)).collect()
}

/// What is to be done about an adjustment.
enum Step<'a> {
    Change(&'a Sku, Quantity, Line<'a>),
    Answer(Result<Outcome, Problem>),
}

impl<'a> Step<'a> {
    /// Whether its answer is kept under the key of the request.
    const fn is_kept(&self) -> bool {
        matches!(self, Self::Change(..) | Self::Answer(Ok(Outcome::Refused(_))))
    }

    fn change(&self) -> Option<(&'a Sku, Quantity, &Line<'a>)> {
        match self {
            Self::Change(sku, quantity, line) => Some((sku, *quantity, line)),
            Self::Answer(_) => None,
        }
    }
}

impl Adjustment {
    fn decide(&self, fence: &Fence, earlier: &HashMap<String, Stored>, old: &HashMap<Sku, Stock>) -> Step<'_> {
        match self.memory.among(earlier) {
            Ok(None) => {}
            Ok(Some(stored)) => return Step::Answer(Ok(Outcome::Again(stored))),
            Err(problem) => return Step::Answer(Err(problem)),
        }
        let Some(old) = old.get(&self.sku) else { return Step::Answer(Err(NO_STOCK)) };
        match old.quantity.apply(self.delta) {
            Ok(new) => {
                let line = line(fence, Kind::Adjustment, old.quantity, new, self.reference.as_ref());
                Step::Change(&self.sku, new, line)
            }
            Err(ApplyError::Insufficient) => {
                let problem = Problem::insufficient_stock(old.quantity.get());
                Step::Answer(Ok(Outcome::Refused(self.memory.refusal(&problem, &self.request_id))))
            }
            Err(error) => Step::Answer(Err(Problem::unprocessable(error.to_string()))),
        }
    }

    fn applied(&self, fence: &Fence, new: &Stock) -> Result<Outcome, Problem> {
        let Stock { quantity, version, .. } = *new;
        let adjusted = Adjusted { sku: &self.sku, quantity, version, fencing_token: fence.token().get() };
        Ok(Outcome::Applied(self.memory.stored(StatusCode::OK, json::to_string(&adjusted)?)))
    }
}
