use std::sync::{Arc, Weak, atomic::AtomicBool};

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    events::RoutedEvents,
    link::{RoutedLink, Servers},
    moves::Moves,
    nodes::Nodes,
    server::{Role, Server, ServerState},
    server_events::ServerEvents,
};
use crate::redis::{LinkEvents, Redis, Script};

impl<S: ServerState> RoutedLink<S> {
    /// A link that connects when it is [started](RoutedLink::start), which is possible once `events` has all that it
    /// works with. `role` and `scripts` are given to each [`Link`](crate::redis::Link). `channels` are subscribed on a
    /// server that has all buckets. Must be called within a tokio runtime.
    pub(crate) fn new(
        redis: &Redis,
        role: &'static str,
        channels: Vec<String>,
        scripts: &'static [&'static Script],
        events: Arc<dyn RoutedEvents<S>>,
    ) -> Arc<Self> {
        let role = Role { name: role, scripts };
        Arc::new_cyclic(|link| {
            let (routes, told) = (Weak::clone(link), Arc::clone(&events));
            let events_of = move |server: &Weak<Server<S>>| -> Arc<dyn LinkEvents> {
                let events = Arc::clone(&told);
                Arc::new(ServerEvents { events, link: Weak::clone(&routes), server: Weak::clone(server) })
            };
            let servers = match Nodes::new(redis, role, Box::new(events_of.clone())) {
                Some(nodes) => Servers::Nodes(Box::new(nodes)),
                None => Servers::Only(Arc::new_cyclic(|server| Server::only(redis, role, channels, events_of(server)))),
            };
            Self {
                servers,
                events,
                timeout: redis.timeout(),
                listened: [const { AtomicBool::new(false) }; 256],
                retired: AtomicBool::new(false),
                tasks: TaskTracker::new(),
                runtime: Handle::current(),
                ended: CancellationToken::new(),
            }
        })
    }

    /// Starts connecting. The nodes of a cluster are connected to on demand. Must be called once.
    pub(crate) fn start(self: &Arc<Self>) {
        match &self.servers {
            Servers::Only(server) => server.link.start(),
            Servers::Nodes(nodes) => nodes.discovery.start(Arc::new(Moves(Arc::downgrade(self)))),
        }
    }
}
