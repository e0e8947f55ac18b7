use sqlx::{PgConnection, PgPool};

use super::{
    FenceError, Tx,
    begin::literal,
    error::{REFUSED, claim_statement, own_statement, sqlstate},
    registry::PoolState,
};
use crate::lock::{Fence, LossReason, Mode, MultiFence, Token};

/// Records a forced release: always above what was seen, even when the lock store lost its data and minted too low.
const FORCE_SQL: &str = "insert into stockade.fence as f (resource, token, owner)
select $1, greatest($2::bigint, floor.token + 1), 'force' from stockade.fence_floor as floor
on conflict (resource) do update set token = greatest(excluded.token, f.token + 1), owner = excluded.owner
returning f.token";

const LAST_SQL: &str = "select greatest(
    (select token from stockade.fence where resource = $1),
    (select token from stockade.fence_floor),
    0)";

/// What [`Fence::CLAIM_SQL`] is run with, in the order of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimArgs {
    /// `$1`, text: the encoded resource.
    pub resource: String,
    /// `$2`, bigint: the fencing token.
    pub token: i64,
    /// `$3`, text: who owns it. A bearer secret: keep it out of logs and answers.
    pub owner: String,
}

impl Fence {
    /// Claims the fence row: `$1` text, `$2` bigint, `$3` text, see [`Fence::claim_args`]. No row returned means
    /// refused.
    ///
    /// For other drivers than sqlx; [`Fence::begin`] runs it. It is the first statement of a READ COMMITTED
    /// transaction, alone: every protected read is a later statement, because a statement that waits for the row lock
    /// *and* reads returns what was true before the wait. An ownership may claim as often as it likes.
    ///
    /// The commit of such a transaction is not known to the lock: have its answer before
    /// [`Guard::downgrade`](crate::Guard::downgrade) or [`Guard::hand_over`](crate::Guard::hand_over), which wait for
    /// nobody and refuse only beside a commit of [`Tx`].
    pub const CLAIM_SQL: &'static str = "insert into stockade.fence as f (resource, token, owner)
select $1, $2::bigint, $3 where $2::bigint > (select token from stockade.fence_floor)
on conflict (resource) do update set token = excluded.token, owner = excluded.owner
where f.token < excluded.token or (f.token = excluded.token and f.owner = excluded.owner)
returning f.token";

    /// The arguments of [`Fence::CLAIM_SQL`].
    ///
    /// # Errors
    ///
    /// [`FenceError::Shared`] for a shared ownership, [`FenceError::Lost`] for one that was handed over.
    pub fn claim_args(&self) -> Result<ClaimArgs, FenceError> {
        // Who adopted it claims as the same owner, and is told from this one by nothing.
        if let Some(reason @ LossReason::HandedOver) = self.loss() {
            return Err(FenceError::Lost(reason));
        }
        match self.mode() {
            mode @ (Mode::Read | Mode::Permit) => Err(FenceError::Shared(mode)),
            Mode::Write => Ok(self.args()),
        }
    }

    /// Claims the fence in a short transaction of its own: before protected reads that do not go through the write
    /// transaction (a cache, another service). The write transaction claims again.
    ///
    /// # Errors
    ///
    /// As [`Fence::begin`], and [`FenceError::Shared`] for a shared ownership.
    pub async fn claim(&self, pool: &PgPool) -> Result<(), FenceError> {
        self.claim_args()?;
        self.begin(pool).await?.end().await.map_err(FenceError::Sqlx)
    }

    /// Starts a transaction under this ownership: BEGIN and the claim, in one round trip.
    ///
    /// An exclusive ownership takes the fence row and keeps it locked to the end of the transaction. A shared one only
    /// checks that no newer writer was there, and its transaction is read only: two readers are valid together, so
    /// neither may claim, and without a claim nothing guards a write. A permit of a semaphore neither claims nor
    /// checks: it limits how many work, not what they see.
    ///
    /// Take it after the lock; the database connection is never kept while waiting for one. Dropping the future leaves
    /// nothing behind.
    ///
    /// # Errors
    ///
    /// [`FenceError`], for a permit always [`FenceError::Shared`]; nothing was applied. A refusal while the guard is
    /// live by its own clock first raises the lock store's tokens above the fence, within one command time-out, so that
    /// the next acquire is not refused again.
    #[tracing::instrument(name = "fence", level = "debug", skip_all)]
    pub async fn begin(&self, pool: &PgPool) -> Result<Tx, FenceError> {
        if let Some(reason) = self.loss() {
            return Err(FenceError::Lost(reason));
        }
        if self.mode() == Mode::Permit {
            return Err(FenceError::Shared(Mode::Permit));
        }
        let (state, opening) = (PoolState::of(pool), self.opening()?);
        state.check_schema_of(pool).await?;
        match Tx::claimed(pool, state, self, opening).await {
            Err(error) if sqlstate(&error) == Some(REFUSED) => Err(self.refused(pool).await),
            begun => begun.map_err(if self.mode() == Mode::Write { claim_statement } else { own_statement }),
        }
    }

    /// The message that begins a transaction under this ownership.
    ///
    /// BEGIN comes last: statements before it are a transaction that it goes on with, and that is over when one of them
    /// fails, so that a refusal leaves nothing on the connection. Each statement has a snapshot of its own, and what is
    /// read under the claim comes in later ones. The level is named because a database may default to another, under
    /// which they would all read from the claim's.
    ///
    /// The function is called by SELECT: statistics of the server show its arguments as `$1`. Before PostgreSQL 17 they
    /// show those of CALL as they are, the owner among them, in an entry for each claim.
    fn opening(&self) -> Result<String, FenceError> {
        let (access, function, args) = match self.mode() {
            Mode::Write => ("read write", "claim", self.claim_args()?),
            Mode::Read | Mode::Permit => ("read only", "check_claims", self.args()),
        };
        let (resource, token, owner) = (literal(&args.resource), args.token, literal(&args.owner));
        Ok(format!(
            "set transaction isolation level read committed, {access}; \
             select stockade.{function}({resource}, {token}, {owner}); begin"
        ))
    }

    fn args(&self) -> ClaimArgs {
        ClaimArgs {
            resource: self.key().as_str().to_owned(),
            token: sql_token(self.token()),
            owner: self.ownership.fence_owner.as_str().to_owned(),
        }
    }

    /// After a claim was refused and its transaction is over.
    async fn refused(&self, pool: &PgPool) -> FenceError {
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

impl MultiFence {
    /// Starts a transaction under all of these ownerships: BEGIN, then one claim after the other, in the order in which
    /// everybody acquires and claims, so that two transactions never wait for each other's fence rows.
    ///
    /// One statement for each resource. What [`Fence::begin`] says about one of them holds for all.
    ///
    /// # Errors
    ///
    /// [`FenceError`]; nothing was applied. A refusal of one claim undoes those before it.
    #[tracing::instrument(name = "fence", level = "debug", skip_all)]
    pub async fn begin(&self, pool: &PgPool) -> Result<Tx, FenceError> {
        if let Some(reason) = self.loss() {
            return Err(FenceError::Lost(reason));
        }
        let fences = self.in_lock_order();
        // They share one gate for commits, so any of them stands for all.
        let mut tx = Tx::start(pool, fences.to_vec()).await?;
        for fence in fences {
            if !claim(&mut tx, &fence.claim_args()?).await? {
                // The connection goes back before anything else is asked.
                tx.rollback().await.map_err(FenceError::Sqlx)?;
                return Err(fence.refused(pool).await);
            }
        }
        Ok(tx)
    }

    /// Claims all in a short transaction of its own, as [`Fence::claim`] does for one.
    ///
    /// # Errors
    ///
    /// As [`MultiFence::begin`].
    pub async fn claim(&self, pool: &PgPool) -> Result<(), FenceError> {
        self.begin(pool).await?.end().await.map_err(FenceError::Sqlx)
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

/// Claims the fence of a resource that was forced, so that its holders' next transactions are refused.
///
/// `resource` is the encoded key and `token` what [`Locks::force_release`](crate::Locks::force_release) returned. A
/// transaction that is under way keeps the row locked and is waited for. The claim always wins; the token it took is
/// returned, higher than `token` when the lock store had lost its data.
///
/// # Errors
///
/// [`FenceError::Busy`] when a holder's transaction does not end within `lock_timeout`, [`FenceError::Schema`],
/// [`FenceError::Sqlx`].
pub async fn claim_forced(pool: &PgPool, resource: impl AsRef<str> + Send, token: Token) -> Result<Token, FenceError> {
    let mut connection = pool.acquire().await.map_err(FenceError::Sqlx)?;
    PoolState::of(pool).check_schema(&mut connection).await?;
    let claimed: i64 = sqlx::query_scalar(FORCE_SQL)
        .bind(resource.as_ref())
        .bind(sql_token(token))
        .fetch_one(&mut *connection)
        .await
        .map_err(claim_statement)?;
    Ok(token_of(claimed))
}

async fn claim(connection: &mut PgConnection, args: &ClaimArgs) -> Result<bool, FenceError> {
    let claimed: Option<i64> = sqlx::query_scalar(Fence::CLAIM_SQL)
        .bind(&args.resource)
        .bind(args.token)
        .bind(&args.owner)
        .fetch_optional(connection)
        .await
        .map_err(claim_statement)?;
    Ok(claimed.is_some())
}

/// The highest token that a claim of this resource is compared with.
async fn last(pool: &PgPool, resource: &str) -> Result<Token, FenceError> {
    let last: i64 = sqlx::query_scalar(LAST_SQL).bind(resource).fetch_one(pool).await.map_err(own_statement)?;
    Ok(token_of(last))
}

fn sql_token(token: Token) -> i64 {
    i64::try_from(token.get()).unwrap_or(i64::MAX)
}

/// The tables hold nothing outside a token's range; should somebody drop their checks, the limit still orders right.
fn token_of(value: i64) -> Token {
    u64::try_from(value).ok().and_then(Token::new).unwrap_or(Token::MAX)
}
