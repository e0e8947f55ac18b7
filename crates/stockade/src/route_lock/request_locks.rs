use std::sync::{Arc, Weak};

use axum::{
    extract::{MatchedPath, Request},
    http::{Extensions, request::Parts},
};

use super::{Grant, Limits};
use crate::{
    clock::Instant,
    lock::{Fence, MultiFence},
    resource::Key,
};

/// The locks under which a request runs, outermost first. Kept among the extensions of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLocks {
    held: Vec<Entry>,
    /// Whether the innermost layer runs without its lock.
    innermost_skipped: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    fence: Fence,
    /// The fences of all resources, if the layer locked several.
    together: Option<MultiFence>,
    route: Option<MatchedPath>,
    /// Does not keep the lock.
    grant: Weak<Grant>,
    limits: Limits,
}

impl RequestLocks {
    pub(crate) fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Self>()
    }

    /// Adds the grant of the layer that the request has reached. Returns the grants of the layers further out, and the
    /// limits of them all.
    ///
    /// Several resources must be the first locks of a request: their commits count for each other already, and cannot
    /// count for a layer further out too.
    pub(crate) fn enter(extensions: &mut Extensions, grant: &Arc<Grant>, limits: Limits) -> (Vec<Arc<Grant>>, Limits) {
        let route = extensions.get::<MatchedPath>().cloned();
        let locks = extensions.get_or_insert_default::<Self>();
        let outer = locks.held.iter().filter_map(|entry| entry.grant.upgrade()).collect();
        let limits = locks.held.last().map_or(limits, |outer| limits.within(outer.limits));
        let mut add = |fence: Fence, together: Option<MultiFence>| {
            if let Some(outer) = locks.held.last() {
                // The layer further out may end the request while the handler goes on, so it must know of its commits.
                fence.ownership.commits.within(&outer.fence.ownership.commits);
            }
            locks.held.push(Entry { fence, together, route: route.clone(), grant: Arc::downgrade(grant), limits });
        };
        match grant.as_ref() {
            Grant::One(guard) => add(guard.fence(), None),
            Grant::Several(guard) => {
                let fences = guard.fences();
                fences.in_lock_order().iter().cloned().for_each(|fence| add(fence, Some(fences.clone())));
            }
        }
        locks.innermost_skipped = false;
        (outer, limits)
    }

    /// The layer that the request has reached runs without its lock.
    pub(crate) fn skip(extensions: &mut Extensions) {
        if let Some(locks) = extensions.get_mut::<Self>() {
            locks.innermost_skipped = true;
        }
    }

    /// Whether a layer further out holds a lock for the request.
    pub(crate) fn has_any(request: &Request) -> bool {
        Self::of(request.extensions()).is_some_and(|locks| !locks.held.is_empty())
    }

    pub(crate) fn fences(&self) -> impl DoubleEndedIterator<Item = &Fence> {
        self.held.iter().map(|entry| &entry.fence)
    }

    /// The fences of the innermost layer: of the one resource that it locked, or of several. `None` if that layer runs
    /// without its lock.
    pub(crate) fn innermost(&self) -> Option<Result<&Fence, &MultiFence>> {
        let entry = self.held.last().filter(|_| !self.innermost_skipped)?;
        Some(entry.together.as_ref().map_or(Ok(&entry.fence), Err))
    }

    /// Since when no writer can have held the resource with this key. `None` unless one of these locks holds it shared
    /// at this moment.
    pub(crate) fn shared_since(&self, key: &str) -> Option<Instant> {
        self.fences().find(|fence| fence.key().as_str() == key)?.ownership.shared_since()
    }

    /// Whether there is a lock further out, within which several resources are never locked.
    pub(crate) fn refuses_several(parts: &Parts) -> bool {
        let Some(outer) = parts.extensions.get::<Self>().and_then(|locks| locks.held.last()) else { return false };
        tracing::error!(
            route = path(parts.extensions.get()),
            outer_lock = %outer.fence.key().label(),
            outer_route = path(outer.route.as_ref()),
            "`RouteLock::write_all` is within another lock: keep one of the two layers, and name all resources in it"
        );
        true
    }

    /// Whether a lock further out has this resource, in which case waiting for it could only end by the time-out.
    pub(crate) fn refuses(parts: &Parts, key: &Key) -> bool {
        let Some(outer) =
            parts.extensions.get::<Self>().and_then(|locks| locks.held.iter().find(|e| e.fence.key() == key))
        else {
            return false;
        };
        tracing::error!(
            lock = %key.label(),
            route = path(parts.extensions.get()),
            outer_lock = %outer.fence.key().label(),
            outer_route = path(outer.route.as_ref()),
            outer_mode = outer.fence.mode().as_str(),
            "one request locks a resource twice: keep one of the two layers"
        );
        true
    }
}

fn path(route: Option<&MatchedPath>) -> &str {
    route.map_or("unmatched", MatchedPath::as_str)
}

/// Marks a request that runs without its lock because the lock store is unavailable and the route proceeds without it.
///
/// It is among the extensions of the request. The answer must say that it was made without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Degraded;

/// Marks a request that runs without its lock because it did not get the lock within [`RouteLock::read_wait`].
///
/// It is among the extensions of the request. The answer must say that a write may have been under way.
///
/// [`RouteLock::read_wait`]: super::RouteLock::read_wait
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unlocked;
