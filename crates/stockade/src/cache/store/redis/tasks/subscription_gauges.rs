use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::store::{SILENCE, redis::subscription::Subscription},
    clock::Instant,
    metrics::{self, CACHE_LOCAL_STALENESS_BOUND, SUBSCRIPTION_UP, tag},
};

const TICK: Duration = Duration::from_millis(100);

/// Sets two gauges until told to stop: whether the subscription is live, and the staleness bound, which is how old a
/// write may be that an answer of the in-process tier misses. The bound is zero while the tier answers nothing, and
/// always if `serves` is `false`: then the tier only answers while Redis is away.
///
/// This task is separate from the heartbeat, which waits for the server. The bound grows during such a wait.
pub(crate) async fn show<V: Send + Sync + 'static>(
    subscription: Arc<Subscription<V>>,
    cache: &'static str,
    serves: bool,
    stop: CancellationToken,
) {
    let show_up = |up| metrics::gauge(SUBSCRIPTION_UP, &[tag("cache", cache)], f64::from(u8::from(up)));
    let show_bound = |bound: Duration| {
        metrics::gauge(CACHE_LOCAL_STALENESS_BOUND, &[tag("cache", cache)], bound.as_secs_f64());
    };
    show_up(false);
    show_bound(Duration::ZERO);
    while stop.run_until_cancelled(sleep(TICK)).await.is_some() {
        let now = Instant::now();
        let up = subscription.liveness.is_live(now);
        show_up(up);
        // Another cache of this name in this process may serve, so this one must not set the bound to zero each time.
        if serves {
            // The shown value must hold until the gauge is set again.
            let bound = (subscription.liveness.since_proof(now) + TICK).min(SILENCE);
            show_bound(if up { bound } else { Duration::ZERO });
        }
    }
    // A cache that has ended misses no invalidation. An alert on its subscription must end with it.
    show_up(true);
    if serves {
        show_bound(Duration::ZERO);
    }
}
