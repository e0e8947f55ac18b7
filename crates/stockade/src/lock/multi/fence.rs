use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::{pending, select_all};

use crate::{
    lock::{Fence, LossReason, Token},
    resource::{Key, Label, Resource},
};

/// The fencing side of the ownership of several resources: one [`Fence`] for each, and their common state.
///
/// The loss of one is the loss of all, and a commit under one of them is a commit under all. Cheap to clone. It does
/// not keep the locks; the [`MultiGuard`](super::MultiGuard) does.
#[derive(Clone)]
pub struct MultiFence {
    /// In the order in which they were acquired. Never empty.
    fences: Arc<[Fence]>,
    /// The index in `fences` for each resource that the caller named, in the caller's order.
    places: Arc<[usize]>,
}

impl MultiFence {
    pub(super) fn new(fences: Arc<[Fence]>, places: Arc<[usize]>) -> Self {
        Self { fences, places }
    }

    pub(crate) fn of_one(fence: Fence) -> Self {
        Self { fences: Arc::new([fence]), places: Arc::new([0]) }
    }

    /// The fences in the order in which the request named the resources. A resource that it named twice comes twice.
    pub fn iter(&self) -> impl Iterator<Item = &Fence> {
        self.places.iter().filter_map(|place| self.fences.get(*place))
    }

    /// The tokens, in the order of [`MultiFence::iter`].
    pub fn tokens(&self) -> impl Iterator<Item = Token> + '_ {
        self.iter().map(Fence::token)
    }

    /// The fence of one of the resources; `None` if the request did not name it.
    pub fn of<R: Resource + ?Sized>(&self, resource: &R) -> Option<&Fence> {
        self.of_key(&Key::of(resource).ok()?)
    }

    /// The fence of one of the resources by its key.
    #[must_use]
    pub fn of_key(&self, key: &Key) -> Option<&Fence> {
        self.fences.iter().find(|fence| fence.key() == key)
    }

    /// Whether the guard has all locks and may still believe in their leases, by the local clock and without asking the
    /// store.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// The first known loss among them, or [`LossReason::Released`] if there is none but the guard gave them back;
    /// judged as by [`MultiFence::is_held`].
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        let ends = || self.fences.iter().filter_map(Fence::loss);
        ends().find(|reason| *reason != LossReason::Released).or_else(|| ends().next())
    }

    /// Resolves when the first of them is lost or given back, as [`Fence::lost`] does for one. Cancel safe.
    pub async fn lost(&self) -> LossReason {
        if self.fences.is_empty() {
            return pending().await;
        }
        let (reason, ..) = select_all(self.fences.iter().map(|fence| Box::pin(fence.lost()))).await;
        reason
    }

    /// How long the holder may still believe in all of them; zero if one is lost or given back.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.fences.iter().map(Fence::remaining).min().unwrap_or_default()
    }

    /// Says that a commit under these ownerships is about to be sent, as [`Fence::commit_started`] does for one.
    #[must_use = "on `false` roll back"]
    pub fn commit_started(&self) -> bool {
        self.fences.first().is_none_or(Fence::commit_started)
    }

    /// Makes every later commit refuse, as `Commits::close` does for one.
    pub(crate) fn close_commits(&self) -> bool {
        self.fences.first().is_none_or(|fence| fence.ownership.commits.close())
    }

    /// In the order in which all processes acquire and claim.
    pub(crate) fn in_lock_order(&self) -> &[Fence] {
        &self.fences
    }

    /// Their name in logs: the label of the first.
    pub(super) fn label(&self) -> Label {
        self.fences.first().map_or_else(Label::default, |fence| fence.key().label().clone())
    }
}

/// Shows the fences, in the order of [`MultiFence::iter`].
impl fmt::Debug for MultiFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
