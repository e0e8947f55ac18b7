use sqlx::PgPool;

use super::args::{sql_token, token_of};
use crate::{
    lock::Token,
    postgres::{FenceError, error::claim_statement, registry::PoolState},
    resource::{Key, Label},
};

/// Records a forced release. The new token is above every token seen before, even when the lock store lost its data and
/// minted a token that is too low.
const FORCE_SQL: &str = "insert into stockade.fence as f (resource, token, owner)
select $1, greatest($2::bigint, floor.token + 1), 'force' from stockade.fence_floor as floor
on conflict (resource) do update set token = greatest(excluded.token, f.token + 1), owner = excluded.owner
returning f.token";

/// Claims the fence of a resource after its lock was released by force. Later transactions of its former holders are
/// refused.
///
/// `resource` is the encoded key, and `token` is what [`Locks::force_release`](crate::Locks::force_release) returned.
/// The claim waits for a transaction under way, which keeps the row locked. The claim always succeeds then. The call
/// returns the token of the claim, which is higher than `token` if the lock store had lost its data, or if the next
/// holder has claimed already: that holder's later transactions are then refused, too. If this future is dropped, the
/// fence may be claimed or not; another call claims it.
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
    let claim = async {
        // At a higher level, which may be the default of the database, the row of a holder that commits meanwhile is
        // refused.
        let mut tx = pool.begin_with("begin isolation level read committed read write").await?;
        let claim = sqlx::query_scalar(FORCE_SQL).bind(key.as_ref().map_or(text, Key::as_str)).bind(sql_token(token));
        let claimed: i64 = claim.fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(token_of(claimed))
    };
    claim.await.map_err(claim_statement)
}
