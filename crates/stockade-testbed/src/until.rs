//! Waiting until several servers agree.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Error, Result};

/// How long servers may take to agree. Only broken servers, or a machine under heavy load, need that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How long one server may take to answer, when other servers can answer as well.
pub(crate) const ASK: Duration = Duration::from_secs(1);

/// Waits until the condition holds. `what` names the condition in the error.
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
