use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// A runtime. It may end before a cache that uses it, as the runtime of a test does.
pub(crate) struct Runtime {
    handle: Handle,
    /// A task that ends with the runtime, or with the cache.
    alive: AbortOnDropHandle<()>,
}

impl Runtime {
    /// The runtime of the caller. Panics outside of one.
    pub(crate) fn current(closing: CancellationToken) -> Self {
        let handle = Handle::current();
        let alive = AbortOnDropHandle::new(handle.spawn(closing.cancelled_owned()));
        Self { handle, alive }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.alive.is_finished()
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }
}
