use sqlx::PgPool;

use super::args::token_of;
use crate::{
    lock::Token,
    postgres::{FenceError, error::own_statement},
};

const LAST_SQL: &str = "select greatest(
    (select token from stockade.fence where resource = $1),
    (select token from stockade.fence_floor),
    0)";

/// The highest token that a claim of this resource is compared with.
pub(super) async fn last(pool: &PgPool, resource: &str) -> Result<Token, FenceError> {
    let last: i64 = sqlx::query_scalar(LAST_SQL).bind(resource).fetch_one(pool).await.map_err(own_statement)?;
    Ok(token_of(last))
}
