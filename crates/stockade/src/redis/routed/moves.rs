use std::sync::{Arc, Weak};

use super::{
    link::{RoutedLink, Servers},
    server::ServerState,
};
use crate::redis::cluster::DiscoveryEvents;

/// Hears of moved buckets. The reference is weak, because the link keeps the discovery, which keeps this.
pub(super) struct Moves<S: ServerState>(pub(super) Weak<RoutedLink<S>>);

impl<S: ServerState> DiscoveryEvents for Moves<S> {
    fn changed(&self) {
        if let Some(link) = self.0.upgrade() {
            link.follow_moves();
        }
    }

    fn in_trouble(&self) -> bool {
        let Some(link) = self.0.upgrade() else { return false };
        link.all().iter().any(|server| !server.is_well())
    }
}

impl<S: ServerState> RoutedLink<S> {
    /// Goes on with each moved bucket at its new server. A node that took over from a failed one may know less.
    fn follow_moves(self: &Arc<Self>) {
        let Servers::Nodes(nodes) = &self.servers else { return };
        let left = nodes.leave();
        self.events.leaving(&left);
        let mut places = Vec::new();
        for bucket in &left {
            let Some(server) = nodes.of(*bucket) else { continue };
            server.state.gained(*bucket);
            if self.has_listened(*bucket) {
                self.listen_behind(&server, *bucket);
            }
            places.push(server);
        }
        places.sort_by_key(|server| server.id);
        places.dedup_by_key(|server| server.id);
        self.events.moved(&left, &places);
    }
}
