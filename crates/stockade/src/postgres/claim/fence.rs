use std::time::Duration;

use sqlx::PgPool;

use super::last::last;
use crate::{
    lock::{Fence, Mode},
    postgres::{
        FenceError, Tx,
        begin::{begin, literal},
        error::{claim_statement, own_statement},
        registry::PoolState,
        sqlstate::{REFUSED, sqlstate},
    },
};

impl Fence {
    /// Claims the fence in a short transaction of its own. Use it before protected reads outside the write transaction,
    /// such as from a cache or another service. The write transaction claims again.
    ///
    /// # Errors
    ///
    /// As [`Fence::begin`], and [`FenceError::Shared`] for a shared ownership.
    pub async fn claim(&self, pool: &PgPool) -> Result<(), FenceError> {
        self.claim_args()?;
        self.begin(pool).await?.inner.commit().await.map_err(FenceError::Sqlx)
    }

    /// Starts a transaction under this ownership: BEGIN and the claim, in one round trip.
    ///
    /// An exclusive ownership takes the fence row and keeps it locked until the transaction ends. A shared ownership
    /// only checks that no newer writer was there, and its transaction is read only: two readers are valid together, so
    /// neither may claim, and without a claim nothing guards a write. A permit of a semaphore is refused: it limits how
    /// many work at once, not what they see.
    ///
    /// A statement that writes in the transaction of a shared ownership fails (SQLSTATE 25006).
    ///
    /// Acquire the lock first and call this then, so that no database connection is held while you wait for the lock.
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`FenceError`]; for a permit always [`FenceError::Shared`]. Nothing was applied. If the claim is refused
    /// although the guard is still live by its own clock, the call first raises the lock store's tokens above the
    /// fence, within one command time-out. The next acquire is then not refused again.
    pub async fn begin(&self, pool: &PgPool) -> Result<Tx, FenceError> {
        self.begin_within(pool, None).await
    }

    /// [`Fence::begin`]. With `patience`, no statement of the transaction waits longer for a row.
    #[tracing::instrument(name = "fence", level = "debug", skip_all)]
    pub(in crate::postgres) async fn begin_within(
        &self,
        pool: &PgPool,
        patience: Option<Duration>,
    ) -> Result<Tx, FenceError> {
        if let Some(reason) = self.loss() {
            return Err(FenceError::Lost(reason));
        }
        // Read once: the lock may be downgraded while the transaction begins, and the commit must know of it.
        let mode = self.mode();
        if mode == Mode::Permit {
            return Err(FenceError::Shared(Mode::Permit));
        }
        let (state, opening) = (PoolState::of(pool), self.opening(mode, patience)?);
        state.check_schema(pool).await?;
        match begin(pool, &state, opening).await {
            Ok(inner) => Ok(Tx::begun(pool, state, inner, vec![self.clone()], mode == Mode::Write)),
            Err(error) if sqlstate(&error) == Some(REFUSED) => Err(self.refused(pool).await),
            Err(error) => Err(if mode == Mode::Write { claim_statement(error) } else { own_statement(error) }),
        }
    }

    /// The message that begins a transaction under this ownership.
    ///
    /// BEGIN comes last. The statements before it form an implicit transaction, which BEGIN continues. If one of them
    /// fails, that transaction ends, and a refusal leaves nothing on the connection. Each statement has a snapshot of
    /// its own, so later statements see what the claim waited for. The message names the isolation level, because a
    /// database may default to another one, under which all statements would share the claim's snapshot.
    ///
    /// The claim is a function called by SELECT, so that the server's statistics show its arguments as `$1`. Before
    /// PostgreSQL 17 the statistics show the arguments of CALL as they are, with one entry for each claim.
    fn opening(&self, mode: Mode, patience: Option<Duration>) -> Result<String, FenceError> {
        let (access, function, args) = match mode {
            Mode::Write => ("read write", "claim", self.claim_args()?),
            Mode::Read | Mode::Permit => ("read only", "check_claims", self.args()),
        };
        let (resource, token, owner) = (literal(&args.resource), args.token, literal(&args.owner));
        Ok(format!(
            "set transaction isolation level read committed, {access}; {}\
             select stockade.{function}({resource}, {token}, {owner}); begin",
            patience.map_or_else(String::new, waits_at_most),
        ))
    }

    /// The error of a refused claim. Its transaction has ended.
    pub(super) async fn refused(&self, pool: &PgPool) -> FenceError {
        let last = match last(pool, self.key().as_str()).await {
            Ok(last) => last,
            Err(error) => return error,
        };
        if self.loss().is_none()
            && let Err(error) = self.store.seed(self.key(), last).await
        {
            tracing::warn!(%error, lock = %self.key().label(), "could not raise the lock store's tokens above the fence");
        }
        FenceError::Rejected { token: self.token(), last }
    }
}

/// The statement after which the transaction waits no longer than this for a row.
pub(super) fn waits_at_most(patience: Duration) -> String {
    format!("set local lock_timeout = {}; ", patience.as_millis())
}

impl crate::Guard {
    /// [`Fence::begin`] of this guard's fence.
    ///
    /// # Errors
    ///
    /// As [`Fence::begin`].
    pub async fn begin(&self, pool: &PgPool) -> Result<Tx, FenceError> {
        self.fence().begin(pool).await
    }
}
