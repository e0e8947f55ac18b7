use std::{collections::VecDeque, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::sendings::Sent;
use crate::{
    redis::LinkError,
    store::{Ownership, redis::commands::replies::Left},
};

/// The most releases that may wait for the task that reads replies.
const MOST: usize = 4096;

/// The replies to releases that no caller waits for. One task reads them, and ends after the last reply.
///
/// Replies come in the order of the releases, so the task needs to wait only for the first.
#[derive(Default)]
pub(crate) struct Releases(Mutex<Queue>);

#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Release>,
    is_read: bool,
}

pub(crate) struct Release {
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) sent: Sent,
    pub(crate) reply: BoxFuture<'static, Result<Left, LinkError>>,
    /// A shutdown waits until this is dropped.
    pub(crate) counted: TaskTrackerToken,
}

impl Releases {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock()
    }

    /// Adds a release. Returns whether a task has to begin to read. Returns the release as an error when there are too
    /// many already.
    pub(super) fn add(&self, release: Release) -> Result<bool, Release> {
        let mut queue = self.lock();
        if queue.waiting.len() == MOST {
            return Err(release);
        }
        queue.waiting.push_back(release);
        Ok(!std::mem::replace(&mut queue.is_read, true))
    }

    /// The next release whose reply is to be read. The task ends when there is none.
    pub(super) fn next(&self) -> Option<Release> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        queue.is_read = next.is_some();
        next
    }
}
