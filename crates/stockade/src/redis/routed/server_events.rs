use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;

use super::{
    events::RoutedEvents,
    link::RoutedLink,
    server::{Server, ServerState},
};
use crate::redis::{Handshake, LinkError, LinkEvents, Up};

/// Passes on what the link to one server tells. The references are weak, because the link keeps this.
pub(super) struct ServerEvents<S: ServerState> {
    pub(super) events: Arc<dyn RoutedEvents<S>>,
    pub(super) link: Weak<RoutedLink<S>>,
    pub(super) server: Weak<Server<S>>,
}

impl<S: ServerState> ServerEvents<S> {
    fn both(&self) -> Option<(Arc<RoutedLink<S>>, Arc<Server<S>>)> {
        self.link.upgrade().zip(self.server.upgrade())
    }
}

impl<S: ServerState> LinkEvents for ServerEvents<S> {
    fn message(&self, channel: &str, payload: &[u8]) {
        if let Some((_, server)) = self.both() {
            self.events.message(&server, channel, payload);
        }
    }

    fn shard_channels(&self) -> Vec<String> {
        self.both().map(|(link, server)| link.channels_at(&server)).unwrap_or_default()
    }

    fn prepare<'a>(&'a self, up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async move {
            let (link, server) = self.both().ok_or(LinkError::Down)?;
            server.met(up);
            self.events.prepare(&server, up, handshake).await?;
            if let Some(subscriptions) = &server.subscriptions {
                // Only this connection's own task counts connections, so this one will get the next number.
                let connection = server.link.generation() + 1;
                link.heard(up).for_each(|bucket| subscriptions.hears(bucket, connection));
            }
            Ok(())
        })
    }

    fn opened(&self, up: &Up) {
        let Some((link, server)) = self.both() else { return };
        server.state.opened(up);
        // A node of a cluster may have got buckets from another one meanwhile.
        link.listen_to_the_rest(&server);
        self.events.opened(&server, up);
    }

    fn closed(&self) {
        match self.both() {
            Some((link, server)) => {
                self.events.closed(&server);
                link.doubt();
            }
            None => self.events.dropped(),
        }
    }
}
