use sha2::{Digest, Sha256};

use crate::{
    lock::{Fence, LossReason, Mode, Token},
    postgres::FenceError,
    store::Owner,
};

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
    /// only during a commit of [`Tx`](crate::postgres::Tx).
    pub const CLAIM_SQL: &'static str = "insert into stockade.fence as f (resource, token, owner)
select $1, $2::bigint, $3 where $2::bigint > (select token from stockade.fence_floor)
on conflict (resource) do update set token = excluded.token, owner = excluded.owner
where f.token < excluded.token or (f.token = excluded.token and f.owner = excluded.owner)
returning f.token";

    /// The arguments of [`Fence::CLAIM_SQL`].
    ///
    /// # Errors
    ///
    /// [`FenceError::Shared`] for a shared ownership, [`FenceError::Lost`] for one that was handed over or given back.
    pub fn claim_args(&self) -> Result<ClaimArgs, FenceError> {
        // The fence row would take this claim until the next holder has made its own.
        if let Some(reason @ (LossReason::HandedOver | LossReason::Released)) = self.loss() {
            return Err(FenceError::Lost(reason));
        }
        match self.mode() {
            mode @ (Mode::Read | Mode::Permit) => Err(FenceError::Shared(mode)),
            Mode::Write => Ok(self.args()),
        }
    }

    pub(super) fn args(&self) -> ClaimArgs {
        ClaimArgs {
            resource: self.key().as_str().to_owned(),
            token: sql_token(self.token()),
            owner: name_of(&self.ownership.owner),
        }
    }
}

/// What stands for an owner in the database.
fn name_of(owner: &Owner) -> String {
    format!("{:.32x}", Sha256::digest(owner.as_str()))
}

pub(super) fn sql_token(token: Token) -> i64 {
    i64::try_from(token.get()).unwrap_or(i64::MAX)
}

/// The checks of the tables allow nothing outside a token's range. If somebody drops the checks, a value cut to the
/// limit still compares correctly.
pub(super) fn token_of(value: i64) -> Token {
    u64::try_from(value).ok().and_then(Token::new).unwrap_or(Token::MAX)
}
