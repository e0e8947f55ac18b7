use std::{fmt::Display, time::Duration};

use tokio::time::{Instant, sleep};

/// Longer than any step of a test takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, async || condition()).await;
}

pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    retried(async || condition().await.then_some(()).ok_or(what)).await;
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

/// How often the server has run a command since its counters were reset.
pub(crate) fn calls_of(stats: &str, command: &str) -> u64 {
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}
