use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::store::{SILENCE, redis::subscription::Subscription},
    clock::Instant,
    metrics::{self, CACHE_LOCAL_STALENESS_BOUND, tag},
};

const TICK: Duration = Duration::from_millis(100);

/// Shows, until told to stop, how old a write may be that an answer of the in-process tier lacks; zero while it answers
/// nothing, and always where it `serves` only when Redis can't.
///
/// Not a part of the stop: they wait for the server, and meanwhile this grows.
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
        // What is shown must be true until it is set again.
        let bound = (subscription.since_proof(now) + TICK).min(SILENCE);
        set(if subscription.is_live(now) { bound.as_secs_f64() } else { 0.0 });
    }
    set(0.0);
}
