use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{store::redis::subscription::Subscription, strict::Strict},
    clock::Instant,
    metrics::{self, CACHE_VOUCHED_FOR, tag},
};

const TICK: Duration = Duration::from_millis(100);
/// How long a strict cache waits for trust in its store before it asks whether a relay runs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sets the gauge of trust until told to stop: whether the store is known to have lost no invalidation. Warns once if a
/// strict cache waits for a relay and none runs.
pub(crate) async fn show<V: Send + Sync + 'static>(
    subscription: Arc<Subscription<V>>,
    cache: &'static str,
    strict: Option<Strict>,
    stop: CancellationToken,
) {
    let set = |shown: bool| metrics::gauge(CACHE_VOUCHED_FOR, &[tag("cache", cache)], f64::from(u8::from(shown)));
    let (mut since, mut unasked) = (Instant::now(), strict);
    loop {
        let is_trusted = subscription.is_trusted();
        set(is_trusted);
        if is_trusted || !subscription.liveness.is_open() {
            since = Instant::now();
        } else if since.elapsed() >= PATIENCE
            && let Some(strict) = &unasked
        {
            since = Instant::now();
            match stop.run_until_cancelled((strict.relayed)(cache)).await {
                Some(Ok(false)) => {
                    tell_of_none(cache);
                    unasked = None;
                }
                Some(Ok(true)) | None => {}
                Some(Err(error)) => tracing::debug!(%error, "whether a relay runs is not known"),
            }
        }
        if stop.run_until_cancelled(sleep(TICK)).await.is_none() {
            break;
        }
    }
    // A cache that has ended waits for nothing.
    set(true);
}

fn tell_of_none(cache: &'static str) {
    tracing::warn!(
        cache,
        "every read of a strict cache is a load, because no stockade::postgres::Relay runs for it in any process to vouch for \
         its Redis: run one with `Relay::spawn(pool, [cache.invalidator()])`"
    );
}
