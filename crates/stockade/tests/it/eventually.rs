use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Waits until the condition holds, thirty seconds at most.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < limit, "not within thirty seconds: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}
