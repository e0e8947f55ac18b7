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

/// Begins a transaction by this message, which may hold several statements and ends with BEGIN.
pub(super) async fn begin(pool: &PgPool, state: &PoolState, message: String) -> Begun {
    let connection = pool.acquire().await?;
    let begun = Transaction::begin(connection, Some(AssertSqlSafe(message).into_sql_str()));
    Beginning { begun: Some(begun), state }.await
}

/// A transaction that begins. The driver does not know of it before it has begun, so one that is dropped before goes on
/// in a task: only then can it be rolled back, and its connection be used by others.
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
        // As many as the pool has connections, and each for as long as the time-outs of its statements.
        if let (Some(begun), Ok(runtime)) = (self.begun.take(), Handle::try_current()) {
            self.state.tasks.spawn_on(async { drop(begun.await) }, &runtime);
        }
    }
}

/// A text as it may stand in any statement, whatever is in it.
///
/// Where a quote or a backslash ends depends on settings of the session, and what bytes beyond ASCII are on its
/// encoding, so texts with any of them are written as numbers. The others are cheaper to parse as they stand.
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
