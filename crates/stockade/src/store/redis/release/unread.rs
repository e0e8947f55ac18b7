use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::sendings::Sent;
use crate::{
    redis::LinkError,
    store::{
        Ownership,
        redis::{commands::replies::Left, inner::Inner},
    },
};

/// The most releases whose replies one task reads.
const MOST: usize = 4096;
/// So long after its sending a release without a reply gets a task of its own. Less than any command time-out.
const PATIENCE: Duration = Duration::from_millis(100);

/// The replies to releases that nobody waits for. One task reads them, and ends with the last.
///
/// Replies come in the order of the releases, so that to wait for the first is to wait for all.
#[derive(Default)]
pub(crate) struct Releases(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Release>,
    is_read: bool,
}

/// A release that was sent.
pub(crate) struct Release {
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) sent: Sent,
    pub(crate) reply: BoxFuture<'static, Result<Left, LinkError>>,
    /// A shutdown waits for it.
    pub(crate) counted: TaskTrackerToken,
}

impl Releases {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a task has to begin to read; the release, when there are too many.
    fn add(&self, release: Release) -> Result<bool, Release> {
        let mut queue = self.lock();
        if queue.waiting.len() == MOST {
            return Err(release);
        }
        queue.waiting.push_back(release);
        Ok(!std::mem::replace(&mut queue.is_read, true))
    }

    /// The next reply to read; the task ends when there is none.
    fn next(&self) -> Option<Release> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        queue.is_read = next.is_some();
        next
    }
}

/// Reads replies. Lets another begin if it is dropped before the last, with the store or its runtime.
struct Reader {
    inner: Arc<Inner>,
    has_ended: bool,
}

impl Reader {
    async fn read(mut self) {
        while let Some(release) = self.inner.releases.next() {
            self.inner.read(release).await;
        }
        self.has_ended = true;
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.has_ended {
            let left = std::mem::take(&mut *self.inner.releases.lock());
            // Dropped outside of the lock.
            drop(left);
        }
    }
}

impl Inner {
    /// Sees to a release that was sent, on a task of the store.
    pub(crate) fn see_to(self: &Arc<Self>, release: Release) {
        match self.releases.add(release) {
            Ok(false) => {}
            Ok(true) => {
                let reader = Reader { inner: Arc::clone(self), has_ended: false };
                self.spawn(reader.read());
            }
            Err(release) => self.see_alone_to(release, None),
        }
    }

    async fn read(self: &Arc<Self>, mut release: Release) {
        let limit = release.sent.at + PATIENCE.min(self.timeout / 2);
        match timeout(limit.remaining(), &mut release.reply).await {
            Ok(left) if left.as_ref().is_ok_and(|left| !left.more) && release.sent.stray.is_none() => {
                self.doubt_unless_found(&release.ownership.key, &left);
            }
            Ok(left) => self.see_alone_to(release, Some(left)),
            Err(_) => self.see_alone_to(release, None),
        }
    }

    /// On a task of its own, which repeats the release if need be.
    fn see_alone_to(self: &Arc<Self>, release: Release, answer: Option<Result<Left, LinkError>>) {
        let inner = Arc::clone(self);
        self.spawn(async move {
            let Release { ownership, sent, reply, counted } = release;
            let reply = async {
                let left = match answer {
                    Some(left) => left,
                    None => reply.await,
                };
                inner.doubt_unless_found(&ownership.key, &left);
                left
            };
            let repeat = sent.stray.map(|at| inner.settled(at));
            Box::pin(inner.see_through(&ownership.key, &ownership.owner, repeat, sent, reply)).await;
            drop(counted);
        });
    }
}

impl fmt::Debug for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Releases").field(&self.lock().waiting.len()).finish()
    }
}
