use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Longer than any step of a test takes on a busy machine, and shorter than a lease of a minute: what only such a lease
/// ends does not come.
const LIMIT: Duration = Duration::from_secs(50);

/// Waits until the condition holds: for tests. `what` says what does not come, where it does not.
///
/// # Panics
///
/// When the condition does not hold within 50 s.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
