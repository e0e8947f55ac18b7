//! How a connection is made fit for use.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::join_all;
use redis::{PushInfo, PushKind, Value, aio::MultiplexedConnection};
use tokio_util::sync::CancellationToken;

use super::{
    connection::Connection, events::LinkEvents, scripts::Scripts, self_test::SelfTest, shared::Shared, up::Up,
    wire::Wire,
};
use crate::{
    redis::{
        LinkError,
        dial::{HandshakeError, Opened, PushFn, permissions},
    },
    resource::Namespace,
};

impl Connection {
    /// Connects and checks the server, subscribes and tests the subscription, and loads the scripts. With a namespace,
    /// the user's permissions are checked, too.
    pub(super) async fn establish(
        shared: &Shared,
        name: &str,
        channels: &[String],
        events: &Arc<dyn LinkEvents>,
        last_run: Option<&Arc<str>>,
        namespace: Option<&Namespace>,
    ) -> Result<Arc<Self>, HandshakeError> {
        let (dialer, scripts) = (shared.redis.dialer(), shared.scripts);
        let ended = CancellationToken::new();
        let test = Arc::new(SelfTest::new());
        let shifted = Arc::new(AtomicBool::new(false));
        let push = on_push(Arc::clone(events), Arc::clone(&test), ended.clone(), Arc::clone(&shifted));
        let Opened { connection: mut multiplexed, run_id, succession, place } = dialer.open(Some(push)).await?;
        match redis::cmd("CLIENT").arg("SETNAME").arg(name).exec_async(&mut multiplexed).await {
            // The name only helps people. A user who may not set one can still lock.
            Err(error) if error.code() != Some("NOPERM") => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        if !channels.is_empty() {
            multiplexed.subscribe(channels).await?;
        }
        let wanted = events.shard_channels();
        let shard_channels = subscribe_sharded(&multiplexed, &wanted).await?;
        if shard_channels.is_empty() && !wanted.is_empty() {
            return Err(HandshakeError::Prepare(LinkError::Moved));
        }
        let ordinary = channels.first().map(|name| ("PUBLISH", name.as_str()));
        let channel = ordinary.or_else(|| Some(("SPUBLISH", shard_channels.first()?.as_str())));
        if let Some(namespace) = namespace {
            permissions::check(&mut multiplexed, scripts, namespace, channel).await?;
        }
        let counts_receivers = match channel {
            Some((publish, name)) => test.run(dialer.timeout, &mut multiplexed, publish, name).await?,
            None => false,
        };
        let scripts = Scripts::load(scripts, &multiplexed).await?;
        let new_run = last_run.is_some_and(|last| *last != run_id);
        Ok(Arc::new(Self {
            wire: Wire::new(multiplexed, dialer.timeout, ended.clone(), Arc::clone(&shared.ceiling)),
            up: Up { run_id, new_run, succession, counts_receivers, shard_channels },
            place,
            scripts,
            shifted,
            ended,
        }))
    }
}

/// Sends all subscriptions at once, one command for each channel, because the channels are in different slots. Returns
/// the channels that this server serves.
async fn subscribe_sharded(
    connection: &MultiplexedConnection,
    channels: &[String],
) -> Result<Vec<String>, HandshakeError> {
    let subscriptions = channels.iter().map(|channel| {
        let mut connection = connection.clone();
        async move { connection.send_packed_command(redis::cmd("SSUBSCRIBE").arg(channel)).await }
    });
    let mut subscribed = Vec::with_capacity(channels.len());
    for (channel, reply) in channels.iter().zip(join_all(subscriptions).await) {
        match reply? {
            // Nobody serves a slot that has no node, and the server serves others all the same.
            Value::ServerError(error) if matches!(error.code(), "MOVED" | "CLUSTERDOWN") => {}
            Value::ServerError(error) => return Err(redis::RedisError::from(error).into()),
            _ => subscribed.push(channel.clone()),
        }
    }
    Ok(subscribed)
}

/// Handles the pushes of a connection.
///
/// A server that gives a slot away ends the sharded subscriptions in that slot. Its push is the same as the
/// confirmation that a client ended a subscription. redis-rs takes the push for the reply to the oldest command under
/// way, and from then on gives each reply to the command after its own. We never end a sharded subscription, so the
/// push always means that this connection is unusable and that every later reply is wrong. The driver calls this before
/// it hands out the first wrong reply.
fn on_push(
    events: Arc<dyn LinkEvents>,
    test: Arc<SelfTest>,
    ended: CancellationToken,
    shifted: Arc<AtomicBool>,
) -> PushFn {
    Box::new(move |PushInfo { kind, data }| match (kind, data.as_slice()) {
        (PushKind::Message | PushKind::SMessage, [Value::BulkString(channel), Value::BulkString(payload)]) => {
            if !test.is_answered_by(payload)
                && let Ok(channel) = std::str::from_utf8(channel)
            {
                events.message(channel, payload);
            }
        }
        (PushKind::SUnsubscribe, _) => {
            shifted.store(true, Ordering::Release);
            ended.cancel();
        }
        (PushKind::Disconnection, _) => ended.cancel(),
        _ => {}
    })
}
