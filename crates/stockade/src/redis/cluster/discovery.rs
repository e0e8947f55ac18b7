use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::{Mutex, RwLock};
use rand::{Rng, seq::SliceRandom};
use redis::{ConnectionAddr, ConnectionInfo, Value};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::slot_map::{SlotMap, View};
use crate::{
    redis::{
        Node, Redis,
        dial::{HANDSHAKE, HandshakeError, News, dial},
    },
    resource::Bucket,
};

/// The shortest time between two rounds of questions, however many commands were sent to the wrong node.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// The time between two rounds while a node that is in use can't be reached: another node may replace it.
const IN_TROUBLE: Duration = Duration::from_millis(300);

/// What the owner of a [`Discovery`] is told and asked.
pub(crate) trait DiscoveryEvents: Send + Sync + 'static {
    /// Buckets moved to another node.
    fn changed(&self);

    /// Whether a node that is in use can't be reached.
    fn in_trouble(&self) -> bool;
}

/// Knows which node of a cluster serves which bucket. It keeps no connection: each round of questions opens its own.
pub(crate) struct Discovery {
    shared: Arc<Shared>,
    /// Ends the task.
    _owner: DropGuard,
}

struct Shared {
    redis: Redis,
    seeds: Vec<ConnectionInfo>,
    map: RwLock<SlotMap>,
    /// Why servers were rejected in the last round, if no node answered in it.
    unfit: Mutex<Option<Arc<str>>>,
    doubt: Notify,
    /// Counts the rounds of questions, with or without an answer.
    asked: watch::Sender<u64>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Discovery {
    /// Starts asking when it is [started](Discovery::start). `None` unless `redis` is a cluster.
    pub(crate) fn new(redis: &Redis) -> Option<Self> {
        let shared = Arc::new(Shared {
            redis: redis.clone(),
            seeds: redis.dialer().seeds()?.to_vec(),
            map: RwLock::default(),
            unfit: Mutex::default(),
            doubt: Notify::new(),
            asked: watch::Sender::new(0),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        let owner = shared.closing.clone().drop_guard();
        Some(Self { shared, _owner: owner })
    }

    /// Starts asking. Must be called once, within a tokio runtime.
    pub(crate) fn start(&self, events: Arc<dyn DiscoveryEvents>) {
        let (keeper, closing) = (Arc::clone(&self.shared), self.shared.closing.clone());
        self.shared.tasks.spawn(async move {
            let _ = closing.run_until_cancelled(keeper.keep(&*events)).await;
        });
    }

    pub(crate) fn owner(&self, bucket: Bucket) -> Option<Node> {
        self.shared.map.read().owner(bucket).cloned()
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.shared.map.read().nodes()
    }

    /// Why servers that are not known can't be used, in words for people. `None` if a node answers and knows the
    /// addresses of all, and also if none can be reached.
    pub(crate) fn unfit(&self) -> Option<Arc<str>> {
        self.shared.unfit.lock().clone()
    }

    /// Reports an error that a change in the cluster may have caused. The nodes are asked soon.
    pub(crate) fn doubt(&self) {
        self.shared.doubt.notify_one();
    }

    /// Like [`Discovery::doubt`]; returns once the nodes have been asked again.
    pub(crate) async fn asked_again(&self) {
        let mut asked = self.shared.asked.subscribe();
        self.doubt();
        let _ = asked.changed().await;
    }

    /// Returns once the first attempt to ask has ended.
    pub(crate) async fn attempted(&self) {
        let mut asked = self.shared.asked.subscribe();
        let _ = asked.wait_for(|times| *times > 0).await;
    }

    pub(crate) async fn shutdown(&self) {
        self.shared.closing.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Shared {
    async fn keep(&self, events: &dyn DiscoveryEvents) {
        loop {
            // The map is free again before `changed`, which may read it.
            let learned = self.ask().await.map(|view| self.map.write().learn(&view));
            if learned == Some(true) {
                tracing::info!(cluster = %self.redis.dialer(), "learned which node serves which slots");
                events.changed();
            }
            self.asked.send_modify(|times| *times += 1);
            sleep(LEAST_PAUSE).await;
            if learned.is_none() || events.in_trouble() {
                let pause = IN_TROUBLE.mul_f64(rand::rng().random_range(0.5..=1.0));
                let _ = timeout(pause, self.doubt.notified()).await;
            } else {
                self.doubt.notified().await;
            }
        }
    }

    /// The first view that a node gives. Asks nodes that serve slots first, in random order, then those in the URL. If a
    /// node fails, knows nothing, or has been silent for a command time-out, the next one is asked as well.
    async fn ask(&self) -> Option<View> {
        let known = self.map.read().nodes();
        let mut places: Vec<_> = known.iter().filter_map(|node| self.redis.dialer().info_of(node)).collect();
        places.shuffle(&mut rand::rng());
        let mut places = places.into_iter().chain(self.seeds.iter().cloned()).peekable();
        let (cluster, mut asked) = (self.redis.dialer(), FuturesUnordered::new());
        let (mut reasons, mut unfit, mut is_final) = (Vec::new(), None, false);
        loop {
            asked.extend(places.next().map(answer_of));
            let patience = if places.peek().is_some() { self.redis.timeout() } else { HANDSHAKE };
            let (place, view) = match timeout(patience, asked.next()).await {
                Ok(Some(answer)) => answer,
                Ok(None) => break,
                Err(_) => continue,
            };
            match view {
                Ok(Some(view)) if view.is_empty() => {
                    reasons.push(format!("{}: it knows no node that serves slots", place.addr()));
                }
                Ok(Some(view)) => {
                    let unfit = view.unfit();
                    let known = std::mem::replace(&mut *self.unfit.lock(), unfit.clone());
                    if let Some(reason) = unfit.filter(|reason| known.as_ref() != Some(reason)) {
                        tracing::warn!(%cluster, %reason, "a part of the slots can't be reached");
                    }
                    if let News::Back(away) = cluster.outage.connected() {
                        tracing::info!(%cluster, ?away, "a node of the cluster answers again");
                    }
                    return Some(view);
                }
                Ok(None) => reasons.push(format!("{}: its reply can't be read", place.addr())),
                Err(error) => {
                    is_final |= error.is_final();
                    unfit = unfit.or_else(|| error.said());
                    reasons.push(format!("{}: {error}", place.addr()));
                }
            }
        }
        *self.unfit.lock() = unfit;
        let reasons = reasons.join("; ");
        if cluster.outage.failed(is_final) {
            tracing::warn!(%cluster, reasons, "no node answers which node serves which slots");
        } else {
            tracing::debug!(%cluster, reasons, "still no node answers which node serves which slots");
        }
        None
    }
}

/// The limit is that of a handshake: the questions take several round trips, and a TLS handshake.
async fn answer_of(place: ConnectionInfo) -> (ConnectionInfo, Result<Option<View>, HandshakeError>) {
    let view = timeout(HANDSHAKE, view_of(&place)).await.unwrap_or(Err(HandshakeError::Timeout));
    (place, view)
}

async fn view_of(place: &ConnectionInfo) -> Result<Option<View>, HandshakeError> {
    let mut connection = dial(place, None).await?;
    let ask = |what: &str| {
        let mut command = redis::cmd("CLUSTER");
        command.arg(what);
        command
    };
    let slots: Value = ask("SLOTS").query_async(&mut connection).await?;
    let nodes: String = ask("NODES").query_async(&mut connection).await?;
    let host = match place.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.as_str(),
        _ => "",
    };
    Ok(View::read(&slots, &nodes, host))
}
