use std::time::Duration;

use tokio::time::Instant;

/// Waits until the condition holds, thirty seconds at most.
pub(in crate::cache) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < limit, "not within thirty seconds: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
