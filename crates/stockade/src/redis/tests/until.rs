use std::{fmt::Display, time::Duration};

pub(crate) use stockade_testbed::eventually;
use tokio::time::{Instant, sleep};

/// Longer than any step of a test takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, async || condition()).await;
}

/// Asks again until there is an answer.
pub(crate) async fn retried<T, E: Display>(mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let limit = Instant::now() + LIMIT;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < limit, "still after {LIMIT:?}: {error}"),
        }
        sleep(Duration::from_millis(1)).await;
    }
}
