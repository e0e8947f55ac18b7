use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::queue::Release;
use crate::{
    redis::LinkError,
    store::redis::{commands::replies::Left, inner::Inner},
};

/// A release without a reply after this time gets a task of its own. With a short command timeout, half of that timeout
/// counts.
const PATIENCE: Duration = Duration::from_millis(100);

/// Reads replies. A reader that is dropped before the last reply, with the store or its runtime, drops the releases
/// that are left. Another reader may begin then.
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
            // Dropped after the mutex is free.
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

    /// Sees to one release on a task of its own, which repeats the release if necessary.
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
