use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::store::redis::{
        reply::Reply,
        scripts::{HEARTBEAT, JOIN},
        subscription::Subscription,
    },
    clock::Instant,
    metrics::{self, SUBSCRIPTION_UP},
    redis::{LinkError, RoutedLink},
    resource::Bucket,
};

const EVERY: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Sends a beat when none was heard for a second, until told to stop.
///
/// Who hears a beat needs to send none, so that a fleet of any size makes about one per second. Who has no answer to
/// anything else for a second asks a question, too: the beats of others don't tell how late they come.
pub(crate) async fn keep<V: Send + Sync + 'static>(
    servers: Arc<RoutedLink<()>>,
    subscription: Arc<Subscription<V>>,
    stop: CancellationToken,
) {
    let mut turn = rand::random::<u8>();
    let mut was_live = false;
    let mut asked = Instant::from_nanos(0);
    loop {
        let jitter = Duration::from_millis(rand::rng().random_range(0..50));
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(TICK + jitter) => {}
        }
        let live = subscription.is_live(Instant::now());
        if live != was_live {
            was_live = live;
            metrics::gauge(SUBSCRIPTION_UP, &[], if live { 1.0 } else { 0.0 });
        }
        let Some(server) = servers.of(Bucket::FIRST).filter(|server| server.link.is_up()) else { continue };
        let link = &server.link;
        if asked.elapsed() >= EVERY
            && let Some(run) = subscription.unsure_run()
        {
            asked = Instant::now();
            let (keys, args) = subscription.joining(&run.id);
            if let Ok(reply) = link.call(&JOIN, keys, args).await.and_then(|reply| Reply::read(JOIN.name, reply)) {
                subscription.joined(&run, asked, &reply);
            }
        }
        let sent = Instant::now();
        if subscription.sequences.since_heartbeat() < EVERY {
            if subscription.since_proof(sent) >= EVERY {
                let mut question = redis::cmd("GET");
                question.arg(subscription.keys.marker());
                // A refusal is an answer, too.
                if let Ok(_) | Err(LinkError::Refused { .. }) = link.command("cache_proof", question).await {
                    subscription.answered(sent);
                }
            }
            continue;
        }
        // One bucket in turn beside those that changed, so that each is confirmed sooner or later.
        turn = turn.wrapping_add(1);
        let mut numbers = subscription.sequences.unconfirmed();
        if !numbers.contains(&turn) {
            numbers.push(turn);
        }
        let sequences = numbers.iter().map(|number| subscription.keys.sequence(Bucket::from_index(*number)));
        let keys = std::iter::once(subscription.keys.epoch()).chain(sequences).collect();
        let mut args = vec![subscription.keys.channel().into_bytes(), subscription.known_epoch()];
        args.extend(numbers.iter().map(|number| number.to_string().into_bytes()));
        if let Ok(reply) = link.call(&HEARTBEAT, keys, args).await.and_then(|reply| Reply::read(HEARTBEAT.name, reply))
        {
            subscription.clock.note(sent, reply.now);
            subscription.answered(sent);
        }
    }
}
