use std::time::Duration;

use sqlx::PgPool;

use super::{ClaimArgs, fence::waits_at_most, last::last};
use crate::{
    lock::{Fence, MultiFence},
    postgres::{
        FenceError, Tx,
        begin::{begin, literal},
        error::claim_statement,
        registry::PoolState,
        sqlstate::{REFUSED, sqlstate},
    },
};

impl Tx {
    /// Begins a transaction that claims all of these, in their order and in one round trip. None of them is claimed if
    /// one is refused; the error is then [`FenceError::Sqlx`] with the state [`REFUSED`]. With `patience`, no statement
    /// of the transaction waits longer for a row.
    #[tracing::instrument(name = "fence", level = "debug", skip_all)]
    pub(in crate::postgres) async fn under_all(
        pool: &PgPool,
        fences: Vec<Fence>,
        patience: Option<Duration>,
    ) -> Result<Self, FenceError> {
        let state = PoolState::of(pool);
        let opening = opening_of_all(&fences, patience)?;
        state.check_schema(pool).await?;
        match begin(pool, &state, opening).await {
            Ok(inner) => Ok(Self::begun(pool, state, inner, fences, true)),
            Err(error) => Err(claim_statement(error)),
        }
    }
}

impl MultiFence {
    /// Starts a transaction under all of these ownerships: BEGIN and one claim for each resource, in one round trip.
    /// Every caller acquires and claims in the same order, so two transactions never wait for each other's fence rows.
    /// The claims are one statement: all of them together take no longer than `statement_timeout`.
    ///
    /// What [`Fence::begin`] says about one resource holds for each of them.
    ///
    /// # Errors
    ///
    /// [`FenceError`]; nothing was applied. If one claim is refused, the earlier claims are rolled back.
    pub async fn begin(&self, pool: &PgPool) -> Result<Tx, FenceError> {
        if let Some(reason) = self.loss() {
            return Err(FenceError::Lost(reason));
        }
        let fences = self.in_lock_order();
        if let [only] = fences {
            return only.begin(pool).await;
        }
        match Tx::under_all(pool, fences.to_vec(), None).await {
            Err(FenceError::Sqlx(error)) if sqlstate(&error) == Some(REFUSED) => {
                Err(one_refused(fences, pool).await.unwrap_or(FenceError::Sqlx(error)))
            }
            begun => begun,
        }
    }

    /// Claims all in a short transaction of its own, as [`Fence::claim`] does for one.
    ///
    /// # Errors
    ///
    /// As [`MultiFence::begin`].
    pub async fn claim(&self, pool: &PgPool) -> Result<(), FenceError> {
        self.begin(pool).await?.inner.commit().await.map_err(FenceError::Sqlx)
    }
}

impl crate::lock::MultiGuard {
    /// [`MultiFence::begin`] of this guard's fences.
    ///
    /// # Errors
    ///
    /// As [`MultiFence::begin`].
    pub async fn begin(&self, pool: &PgPool) -> Result<Tx, FenceError> {
        self.fences().begin(pool).await
    }
}

/// The message that begins a transaction under several exclusive ownerships, as [`Fence::opening`] does under one. The
/// server calls the function for one row after the other, so the claims are made in order.
fn opening_of_all(fences: &[Fence], patience: Option<Duration>) -> Result<String, FenceError> {
    let (mut resources, mut tokens, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    for fence in fences {
        let ClaimArgs { resource, token, owner } = fence.claim_args()?;
        resources.push(literal(&resource));
        tokens.push(token.to_string());
        owners.push(literal(&owner));
    }
    Ok(format!(
        "set transaction isolation level read committed, read write; {}\
         select stockade.claim(resource, token, owner) \
         from unnest(array[{}], array[{}]::bigint[], array[{}]) as claims (resource, token, owner); begin",
        patience.map_or_else(String::new, waits_at_most),
        resources.join(","),
        tokens.join(","),
        owners.join(","),
    ))
}

/// Finds the fence whose claim was refused, and makes the error of it. The server only says that one of them was.
///
/// A higher token in the database is a sure sign. An equal one may also be an earlier claim of the fence itself.
async fn one_refused(fences: &[Fence], pool: &PgPool) -> Option<FenceError> {
    let mut equal = None;
    for fence in fences {
        match last(pool, fence.key().as_str()).await {
            Ok(last) if last > fence.token() => return Some(fence.refused(pool).await),
            Ok(last) if last == fence.token() => equal = equal.or(Some(fence)),
            Ok(_) => {}
            Err(error) => return Some(error),
        }
    }
    Some(equal?.refused(pool).await)
}
