use std::{
    ops::RangeInclusive,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redis::{PushKind, Value};
use tokio::time::{sleep, timeout};

use super::{
    link::RoutedLink,
    server::{Server, ServerState},
};
use crate::{
    redis::{LinkError, Up},
    resource::Bucket,
};

const ALL: RangeInclusive<u8> = 0..=u8::MAX;
/// The pause between two attempts to subscribe that no caller waits for.
const AGAIN: Duration = Duration::from_millis(100);

impl<S: ServerState> RoutedLink<S> {
    /// The channels to subscribe before a connection opens: those of the buckets in use, and at least one, to find out
    /// whether the node counts receivers.
    pub(super) fn channels_at(&self, server: &Server<S>) -> Vec<String> {
        if server.subscriptions.is_none() {
            return Vec::new();
        }
        let here = || ALL.map(Bucket::from_index).filter(|bucket| self.has(server, *bucket));
        let mut wanted: Vec<_> = here().filter(|bucket| self.has_listened(*bucket)).collect();
        if wanted.is_empty() {
            wanted.extend(here().next());
        }
        wanted.into_iter().filter_map(|bucket| self.events.channel(bucket)).collect()
    }

    /// The buckets whose channels were subscribed when the connection was made.
    pub(super) fn heard(&self, up: &Up) -> impl Iterator<Item = Bucket> {
        ALL.map(Bucket::from_index).filter(|bucket| {
            let channel = self.events.channel(*bucket);
            channel.is_some_and(|channel| up.shard_channels.contains(&channel))
        })
    }

    pub(super) fn has_listened(&self, bucket: Bucket) -> bool {
        self.listened[usize::from(bucket.index())].load(Ordering::Acquire)
    }

    /// Subscribes to the channel of the bucket, unless this connection already has it. Returns when the subscription is
    /// confirmed. A server with all buckets sends everything on one channel, so nothing is subscribed there.
    pub(crate) async fn listen(&self, server: &Server<S>, bucket: Bucket) -> Result<(), LinkError> {
        let Some(subscriptions) = server.subscriptions.as_ref().filter(|_| !server.hears(bucket)) else {
            return Ok(());
        };
        let listening = async {
            let _turn = subscriptions.turn(bucket).await;
            if server.hears(bucket) {
                return Ok(());
            }
            self.listened[usize::from(bucket.index())].store(true, Ordering::Release);
            let mut subscribe = redis::cmd("SSUBSCRIBE");
            subscribe.arg(self.events.channel(bucket).ok_or(LinkError::Down)?);
            let (carrier, reply) = server.carried(|link| link.subscribe("ssubscribe", subscribe));
            match reply.await? {
                Value::Push { kind: PushKind::SSubscribe, .. } => {}
                _ => return Err(LinkError::Protocol { op: "ssubscribe" }),
            }
            subscriptions.hears(bucket, carrier.ok_or(LinkError::Lost)?.connection);
            Ok(())
        };
        timeout(self.timeout, listening).await.unwrap_or(Err(LinkError::Timeout))
    }

    /// Like [`RoutedLink::listen`], on a task, for a caller that wants the messages but need not wait for the
    /// subscription.
    pub(crate) fn listen_behind(self: &Arc<Self>, server: &Arc<Server<S>>, bucket: Bucket) {
        if server.hears(bucket) {
            return;
        }
        let (link, server, ended) = (Arc::downgrade(self), Arc::clone(server), self.ended.clone());
        let listening = async move {
            while let Some(link) = link.upgrade() {
                let Err(error) = link.listen(&server, bucket).await else { return };
                link.suspect(&error);
                // A connection that opens later subscribes by itself to the buckets that are here then.
                if !server.link.is_up() || !link.has(&server, bucket) {
                    return;
                }
                drop(link);
                sleep(AGAIN).await;
            }
        };
        let listening = async move {
            let _ = ended.run_until_cancelled(listening).await;
        };
        self.tasks.spawn_on(listening, &self.runtime);
    }

    /// Subscribes to the buckets that came to this server while its connection was being made.
    pub(super) fn listen_to_the_rest(self: &Arc<Self>, server: &Arc<Server<S>>) {
        for bucket in ALL.map(Bucket::from_index) {
            if self.has_listened(bucket) && self.has(server, bucket) {
                self.listen_behind(server, bucket);
            }
        }
    }
}
