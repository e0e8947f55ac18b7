use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// How many pages may listen to a feed at once. The operators' port has other connections to spare for probes and
/// scrapes.
const LISTENERS: usize = 32;

/// The newest snapshot, as JSON; `None` while nobody listens.
type Newest = Option<Arc<str>>;

/// The feeds of the console.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Feeds {
    /// Snapshots of this instance.
    pub(in crate::ops) own: Feed,
    /// Snapshots of all instances.
    pub(in crate::ops) all: Feed,
}

/// A feed of snapshots. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Feed {
    newest: watch::Receiver<Newest>,
    places: Arc<Semaphore>,
    wanted: Arc<Notify>,
}

/// The sending side of a feed.
#[derive(Debug)]
pub(super) struct Source {
    newest: watch::Sender<Newest>,
    places: Arc<Semaphore>,
}

impl Feed {
    /// A feed and its source. A new listener notifies `wanted`.
    pub(super) fn new(wanted: &Arc<Notify>) -> (Self, Source) {
        let (sender, newest) = watch::channel(None);
        let places = Arc::new(Semaphore::new(LISTENERS));
        let source = Source { newest: sender, places: Arc::clone(&places) };
        (Self { newest, places, wanted: Arc::clone(wanted) }, source)
    }

    /// Begins to listen; `None` when there is no place left.
    pub(super) fn listen(&self) -> Option<Listener> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let mut newest = self.newest.clone();
        // This listener has not seen the newest snapshot.
        newest.mark_changed();
        self.wanted.notify_one();
        Some(Listener { newest, _place: place })
    }
}

/// A listener of a feed. Dropping it frees its place.
#[derive(Debug)]
pub(super) struct Listener {
    newest: watch::Receiver<Newest>,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    /// The next snapshot; `None` once the sampler has ended. A listener that is slow misses some and gets the newest.
    pub(super) async fn next(&mut self) -> Newest {
        loop {
            self.newest.changed().await.ok()?;
            let newest = self.newest.borrow_and_update().clone();
            if newest.is_some() {
                return newest;
            }
        }
    }
}

impl Source {
    /// Whether somebody listens.
    pub(super) fn is_wanted(&self) -> bool {
        self.places.available_permits() < LISTENERS
    }

    pub(super) fn tell(&self, newest: Newest) {
        self.newest.send_replace(newest);
    }
}
