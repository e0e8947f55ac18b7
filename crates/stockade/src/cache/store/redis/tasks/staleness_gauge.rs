use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::store::{SILENCE, redis::subscription::Subscription},
    clock::Instant,
    metrics::{self, CACHE_LOCAL_STALENESS_BOUND, tag},
};

const TICK: Duration = Duration::from_millis(100);

/// Sets the gauge of the staleness bound until told to stop: how old a write may be that an answer of the in-process
/// tier misses. The gauge is zero while the tier answers nothing, and always if `serves` is `false`: then the tier only
/// answers while Redis is away.
///
/// This task is separate from the heartbeat, which waits for the server. The bound grows during such a wait.
pub(crate) async fn show<V: Send + Sync + 'static>(
    subscription: Arc<Subscription<V>>,
    cache: &'static str,
    serves: bool,
    stop: CancellationToken,
) {
    let set = |seconds| metrics::gauge(CACHE_LOCAL_STALENESS_BOUND, &[tag("cache", cache)], seconds);
    set(0.0);
    if !serves {
        return;
    }
    while stop.run_until_cancelled(sleep(TICK)).await.is_some() {
        let now = Instant::now();
        // The shown value must hold until the gauge is set again.
        let bound = (subscription.liveness.since_proof(now) + TICK).min(SILENCE);
        set(if subscription.liveness.is_live(now) { bound.as_secs_f64() } else { 0.0 });
    }
    set(0.0);
}
