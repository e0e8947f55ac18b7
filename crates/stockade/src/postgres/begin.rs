use std::{
    fmt::Write,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::future::BoxFuture;
use sqlx::{AssertSqlSafe, PgPool, Postgres, SqlSafeStr, Transaction};
use tokio::runtime::Handle;

use super::registry::PoolState;

type Begun = Result<Transaction<'static, Postgres>, sqlx::Error>;

/// Begins a transaction by sending `message`, which may hold several statements and ends with BEGIN.
pub(super) async fn begin(pool: &PgPool, state: &PoolState, message: String) -> Begun {
    let connection = pool.acquire().await?;
    let begun = Transaction::begin(connection, Some(AssertSqlSafe(message).into_sql_str()));
    Beginning { begun: Some(begun), state }.await
}

/// A transaction that is about to begin. The driver can roll back a transaction only once it has begun. A future that
/// is dropped before therefore goes on in a task, which rolls back and returns the connection to the pool.
struct Beginning<'a> {
    begun: Option<BoxFuture<'static, Begun>>,
    state: &'a PoolState,
}

impl Future for Beginning<'_> {
    type Output = Begun;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Begun> {
        let Some(begun) = &mut self.begun else { return Poll::Pending };
        let begun = ready!(begun.as_mut().poll(context));
        self.begun = None;
        Poll::Ready(begun)
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        // At most one task for each connection of the pool, each limited by the time-outs of its statements.
        if let (Some(begun), Ok(runtime)) = (self.begun.take(), Handle::try_current()) {
            self.state.tasks.spawn_on(async { drop(begun.await) }, &runtime);
        }
    }
}

/// A text as an SQL literal, safe for any content.
///
/// What a quote or a backslash means depends on settings of the session, and what bytes beyond ASCII mean depends on
/// its encoding. A text with any of these is therefore written as numbers. Other texts are written as they are, which
/// is cheaper to parse.
pub(super) fn literal(text: &str) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\')) {
        return format!("'{text}'");
    }
    let mut literal = String::with_capacity(2 * text.len() + 40);
    literal.push_str("convert_from(decode('");
    for byte in text.as_bytes() {
        // Writing to a String can't fail.
        let _ = write!(literal, "{byte:02x}");
    }
    literal.push_str("','hex'),'utf8')");
    literal
}
