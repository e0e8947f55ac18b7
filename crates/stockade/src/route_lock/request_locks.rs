use axum::{
    extract::MatchedPath,
    http::{Extensions, request::Parts},
};

use crate::{
    clock::Instant,
    lock::{Fence, MultiFence},
    resource::Key,
};

/// The locks under which a request runs, outermost first. Kept among the extensions of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLocks(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    fence: Fence,
    /// The fences of all resources, if the layer locked several.
    together: Option<MultiFence>,
    route: Option<MatchedPath>,
}

impl RequestLocks {
    pub(crate) fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Self>()
    }

    /// Adds the lock of the route that `parts` has reached.
    pub(crate) fn push(parts: &mut Parts, fence: Fence) {
        Self::add(parts, fence, None);
    }

    /// Adds the locks of a layer that locked several resources. They must be the first locks of the request: their
    /// commits count for each other already, and cannot count for a layer further out too.
    pub(crate) fn push_all(parts: &mut Parts, fences: &MultiFence) {
        for fence in fences.in_lock_order() {
            Self::add(parts, fence.clone(), Some(fences.clone()));
        }
    }

    fn add(parts: &mut Parts, fence: Fence, together: Option<MultiFence>) {
        let route = parts.extensions.get::<MatchedPath>().cloned();
        let held = parts.extensions.get_or_insert_default::<Self>();
        if let Some(outer) = held.0.last() {
            // The layer further out may end the request while the handler goes on, so it must know of its commits.
            fence.ownership.commits.within(&outer.fence.ownership.commits);
        }
        held.0.push(Entry { fence, together, route });
    }

    pub(crate) fn fences(&self) -> impl DoubleEndedIterator<Item = &Fence> {
        self.0.iter().map(|entry| &entry.fence)
    }

    /// The fences of the innermost layer: of the one resource that it locked, or of several.
    pub(crate) fn innermost(&self) -> Option<Result<&Fence, &MultiFence>> {
        let entry = self.0.last()?;
        Some(entry.together.as_ref().map_or(Ok(&entry.fence), Err))
    }

    /// Since when no writer can have held the resource with this key. `None` unless one of these locks holds it shared
    /// at this moment.
    pub(crate) fn shared_since(&self, key: &str) -> Option<Instant> {
        self.fences().find(|fence| fence.key().as_str() == key)?.shared_since()
    }

    /// Whether there is a lock further out, within which several resources are never locked.
    pub(crate) fn refuses_several(parts: &Parts) -> bool {
        let Some(outer) = parts.extensions.get::<Self>().and_then(|held| held.0.last()) else { return false };
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
        let Some(outer) = parts.extensions.get::<Self>().and_then(|held| held.0.iter().find(|e| e.fence.key() == key))
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
