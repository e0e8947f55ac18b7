use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{
    cache::store::redis::{
        subscription::Subscription,
        write_probe::{WHAT_TO_SET, write},
    },
    clock::Instant,
    redis::{Link, LinkError, RoutedLink, Succession},
    resource::Bucket,
};

const EVERY: Duration = Duration::from_millis(500);
/// After this many turns the server's settings are read again: they can change while it runs.
const LOOK_EVERY: u32 = 10;

/// Writes every half second if another server may become the primary, until told to stop.
pub(crate) async fn keep<V: Send + Sync + 'static>(
    servers: Arc<RoutedLink<()>>,
    subscription: Arc<Subscription<V>>,
    has_sentinels: bool,
    stop: CancellationToken,
) {
    let mut turn = 0_u32;
    let mut turns = interval(EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = turns.tick() => {}
        }
        let Some(server) = servers.of(Bucket::FIRST).filter(|server| server.link.is_up()) else { continue };
        let (Some((connection, succession)), link) = (subscription.write_probe.wanted(), &server.link) else {
            continue;
        };
        match succession {
            Succession::Bounded => beat(link, &subscription, connection).await,
            Succession::Unbounded if subscription.write_probe.tells() => tracing::warn!(
                "this Redis goes on answering after another server has taken its place, so a strict cache does not believe it: \
                 {WHAT_TO_SET}"
            ),
            Succession::Unbounded | Succession::Never | Succession::ByHand => {}
        }
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(LOOK_EVERY) {
            let info = link.command("cache_replication", redis::cmd("INFO")).await.ok();
            if let Some(info) = info.and_then(|info| redis::from_redis_value::<String>(info).ok()) {
                subscription.write_probe.looked(connection, Succession::of(&info, has_sentinels));
            }
        }
    }
}

async fn beat<V: Send + Sync + 'static>(link: &Link, subscription: &Subscription<V>, connection: u64) {
    let sent = Instant::now();
    match link.command("cache_pulse", write(&subscription.keys)).await {
        Ok(_) => subscription.write_probe.taken(connection, sent),
        Err(LinkError::Refused { code }) if subscription.write_probe.tells() => {
            let why = if code == "NOREPLICAS" {
                ", since fewer replicas follow it than `min-replicas-to-write` says: another server may have taken its place"
            } else {
                ""
            };
            tracing::warn!(
                code,
                "Redis rejects writes{why}. Until it accepts them, every read of a strict cache is a load"
            );
        }
        Err(error) => tracing::debug!(%error, "it is unknown whether Redis accepts writes"),
    }
}
