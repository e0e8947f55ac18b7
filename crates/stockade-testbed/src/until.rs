//! Waiting for what several servers have to agree on.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Error, Result};

/// How long servers may take to agree. Only broken ones need it, or a machine that does much else.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How long one server may take to say what it knows, when others may know it too.
pub(crate) const ASK: Duration = Duration::from_secs(1);

/// Waits until the condition holds; `what` says it in the error.
pub(crate) async fn until(what: impl Into<String>, mut condition: impl AsyncFnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !condition().await {
        if Instant::now() >= deadline {
            return Err(Error::NotReached { what: what.into(), limit: LIMIT });
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
