use std::{sync::Arc, time::Duration};

use rand::Rng;
use redis::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::store::{
        UnsureRun,
        redis::{
            reply::Reply,
            scripts::{HEARTBEAT, JOIN},
            subscription::Subscription,
        },
    },
    clock::Instant,
    redis::{Link, LinkError, RoutedLink},
    resource::Bucket,
};

const EVERY: Duration = Duration::from_secs(1);
/// How often a process that trusts its run looks whether the server still says so.
const LOOK: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(100);

/// Sends a heartbeat if none was heard for a second, until told to stop.
///
/// A process that hears a heartbeat need not send one, so a fleet of any size sends about one per second. A process
/// that has had no reply to any command for a second sends a command too: the heartbeats of others do not show how late
/// they arrive.
pub(crate) async fn keep<V: Send + Sync + 'static>(
    servers: Arc<RoutedLink<()>>,
    subscription: Arc<Subscription<V>>,
    stop: CancellationToken,
) {
    let mut turn = rand::random::<u8>();
    let mut asked = Instant::from_nanos(0);
    loop {
        let jitter = Duration::from_millis(rand::rng().random_range(0..50));
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(TICK + jitter) => {}
        }
        let Some(server) = servers.of(Bucket::FIRST).filter(|server| server.link.is_up()) else { continue };
        let link = &server.link;
        let run = match subscription.unsure_run() {
            Some(run) if asked.elapsed() >= EVERY => Some(run),
            None if asked.elapsed() >= LOOK => {
                asked = Instant::now();
                forgotten(link, &subscription).await
            }
            _ => None,
        };
        if let Some(run) = run {
            asked = Instant::now();
            let (keys, args) = subscription.joining(&run.id);
            if let Ok(reply) = link.call(&JOIN, keys, args).await.and_then(|reply| Reply::read(JOIN.name, reply)) {
                subscription.joined(&run, asked, &reply);
            }
        }
        let sent = Instant::now();
        if subscription.sequences.since_heartbeat() < EVERY {
            if subscription.liveness.since_proof(sent) >= EVERY {
                let mut question = redis::cmd("GET");
                question.arg(subscription.keys.marker());
                // A refusal is a reply too.
                if let Ok(_) | Err(LinkError::Refused { .. }) = link.command("cache_proof", question).await {
                    subscription.liveness.answered(sent);
                }
            }
            continue;
        }
        // In addition to the buckets that changed, one bucket in turn: so every bucket is confirmed sooner or later.
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
            subscription.liveness.answered(sent);
        }
    }
}

/// The trusted run of a strict cache, if the server has forgotten it, as after FLUSHALL. To join it again ends the
/// trust. Otherwise a process that came later would ask for a relay in vain, while those that have one trust the run.
async fn forgotten<V: Send + Sync + 'static>(link: &Link, subscription: &Subscription<V>) -> Option<UnsureRun> {
    let run = subscription.trusted_run()?;
    let mut question = redis::cmd("GET");
    question.arg(subscription.keys.marker());
    match link.command("cache_marker", question).await {
        Ok(Value::Nil) => Some(run),
        Ok(Value::BulkString(marker)) => {
            let marker = String::from_utf8_lossy(&marker);
            let mut words = marker.split(' ');
            // The mark of another run is for the link to notice, which then connects again.
            (words.next() == Some(&run.id) && words.nth(1) != Some("t")).then_some(run)
        }
        _ => None,
    }
}
