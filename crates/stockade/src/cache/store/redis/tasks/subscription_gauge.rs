use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::store::redis::subscription::Subscription,
    clock::Instant,
    metrics::{self, SUBSCRIPTION_UP, tag},
};

const TICK: Duration = Duration::from_millis(100);

/// Sets the gauge of the subscription until told to stop. A cache that has ended misses no invalidation, so it leaves
/// the gauge at 1: an alert on 0 must end with the cache.
pub(crate) async fn show<V: Send + Sync + 'static>(
    subscription: Arc<Subscription<V>>,
    cache: &'static str,
    stop: CancellationToken,
) {
    let set = |up: bool| metrics::gauge(SUBSCRIPTION_UP, &[tag("cache", cache)], f64::from(u8::from(up)));
    loop {
        set(subscription.liveness.is_live(Instant::now()));
        if stop.run_until_cancelled(sleep(TICK)).await.is_none() {
            break;
        }
    }
    set(true);
}
