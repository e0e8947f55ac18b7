use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::PgPool;

use super::{
    FenceError, Tx,
    begin::{begin, literal},
    error::{claim_statement, own_statement},
    registry::PoolState,
    sqlstate::{REFUSED, sqlstate},
};
use crate::{
    lock::{Fence, LossReason, Mode, MultiFence, Token},
    resource::{Key, Label},
    store::Owner,
};

/// Records a forced release. The new token is above every token seen before, even when the lock store lost its data and
/// minted a token that is too low.
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
    /// `$3`, text: who owns it. A hash, since the server may log the statement, and who knows an owner can release its
    /// lock.
    pub owner: String,
}

impl Fence {
    /// Claims the fence row: `$1` text, `$2` bigint, `$3` text, see [`Fence::claim_args`]. No row returned means
    /// refused.
    ///
    /// For drivers other than sqlx; with sqlx, [`Fence::begin`] runs it. Run it alone, as the first statement of a READ
    /// COMMITTED transaction. Every protected read must be a later statement: a statement that waits for the row lock
    /// *and* reads returns what was true before the wait. An ownership may claim as often as it likes.
    ///
    /// The lock does not know about the commit of such a transaction. Wait for the answer to COMMIT before you call
    /// [`Guard::downgrade`](crate::Guard::downgrade) or [`Guard::hand_over`](crate::Guard::hand_over): these refuse
    /// only during a commit of [`Tx`].
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
        // The fence row would take this claim until the process that adopted the ownership has made its own.
        if let Some(reason @ LossReason::HandedOver) = self.loss() {
            return Err(FenceError::Lost(reason));
        }
        match self.mode() {
            mode @ (Mode::Read | Mode::Permit) => Err(FenceError::Shared(mode)),
            Mode::Write => Ok(self.args()),
        }
    }

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
    /// Acquire the lock first and call this then, so that no database connection is held while you wait for the lock.
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`FenceError`]; for a permit always [`FenceError::Shared`]. Nothing was applied. If the claim is refused
    /// although the guard is still live by its own clock, the call first raises the lock store's tokens above the
    /// fence, within one command time-out. The next acquire is then not refused again.
    #[tracing::instrument(name = "fence", level = "debug", skip_all)]
    pub async fn begin(&self, pool: &PgPool) -> Result<Tx, FenceError> {
        if let Some(reason) = self.loss() {
            return Err(FenceError::Lost(reason));
        }
        // Read once: the lock may be downgraded while the transaction begins, and the commit must know of it.
        let mode = self.mode();
        if mode == Mode::Permit {
            return Err(FenceError::Shared(Mode::Permit));
        }
        let (state, opening) = (PoolState::of(pool), self.opening(mode)?);
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
    fn opening(&self, mode: Mode) -> Result<String, FenceError> {
        let (access, function, args) = match mode {
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
            owner: name_of(&self.ownership.owner),
        }
    }

    /// The error of a refused claim. Its transaction has ended.
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

impl Tx {
    /// Begins a transaction that claims all of these, in their order and in one round trip. None of them is claimed if
    /// one is refused; the error is then [`FenceError::Sqlx`] with the state [`REFUSED`]. With `patience`, no statement
    /// of the transaction waits longer for a row.
    #[tracing::instrument(name = "fence", level = "debug", skip_all)]
    pub(super) async fn under_all(
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

/// Claims the fence of a resource after its lock was released by force. Later transactions of its former holders are
/// refused.
///
/// `resource` is the encoded key, and `token` is what [`Locks::force_release`](crate::Locks::force_release) returned.
/// The claim waits for a transaction under way, which keeps the row locked. The claim always succeeds then. The call
/// returns the token of the claim, which is higher than `token` if the lock store had lost its data, or if the next
/// holder has claimed already: that holder's later transactions are then refused, too.
///
/// # Errors
///
/// [`FenceError::Busy`] when a holder's transaction does not end within `lock_timeout`, [`FenceError::Schema`],
/// [`FenceError::Sqlx`].
pub async fn claim_forced(pool: &PgPool, resource: impl AsRef<str> + Send, token: Token) -> Result<Token, FenceError> {
    PoolState::of(pool).check_schema(pool).await?;
    // A long key has two texts: whole, as errors show it, and hashed, as the row has it.
    let text = resource.as_ref();
    let key = Key::encoded(Label::default(), text.to_owned());
    let claimed: i64 = sqlx::query_scalar(FORCE_SQL)
        .bind(key.as_ref().map_or(text, Key::as_str))
        .bind(sql_token(token))
        .fetch_one(pool)
        .await
        .map_err(claim_statement)?;
    Ok(token_of(claimed))
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
    let patience = patience.map(|patience| format!("set local lock_timeout = {}; ", patience.as_millis()));
    Ok(format!(
        "set transaction isolation level read committed, read write; {}\
         select stockade.claim(resource, token, owner) \
         from unnest(array[{}], array[{}]::bigint[], array[{}]) as claims (resource, token, owner); begin",
        patience.unwrap_or_default(),
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

/// The highest token that a claim of this resource is compared with.
async fn last(pool: &PgPool, resource: &str) -> Result<Token, FenceError> {
    let last: i64 = sqlx::query_scalar(LAST_SQL).bind(resource).fetch_one(pool).await.map_err(own_statement)?;
    Ok(token_of(last))
}

/// What stands for an owner in the database.
fn name_of(owner: &Owner) -> String {
    format!("{:.32x}", Sha256::digest(owner.as_str()))
}

fn sql_token(token: Token) -> i64 {
    i64::try_from(token.get()).unwrap_or(i64::MAX)
}

/// The checks of the tables allow nothing outside a token's range. If somebody drops the checks, a value cut to the
/// limit still compares correctly.
fn token_of(value: i64) -> Token {
    u64::try_from(value).ok().and_then(Token::new).unwrap_or(Token::MAX)
}
