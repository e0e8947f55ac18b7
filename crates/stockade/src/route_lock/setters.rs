use std::time::Duration;

use axum::response::IntoResponse;

use super::{Keys, OnReject, OnStoreError, Rejection, RouteLock, Until};
use crate::lock::{Mode, lease_at_start, permits_at_start};

/// Settings of a route.
impl RouteLock {
    /// Shared for every method. Default: shared for safe methods, exclusive for the others. `OPTIONS` never locks.
    ///
    /// # Panics
    ///
    /// For [`RouteLock::write_all`], and together with [`RouteLock::write`] or [`RouteLock::permits`].
    #[must_use]
    #[track_caller]
    pub fn read(self) -> Self {
        self.only_for_one("read");
        self.mode(Mode::Read)
    }

    /// Exclusive for every method except `OPTIONS`. Requests then run as those of unsafe methods do, also `GET`.
    ///
    /// # Panics
    ///
    /// Together with [`RouteLock::read`] or [`RouteLock::permits`].
    #[must_use]
    #[track_caller]
    pub fn write(self) -> Self {
        self.mode(Mode::Write)
    }

    /// Limits how many requests hold the resource at a time, over the whole fleet: a bulkhead in front of a supplier's
    /// service or an expensive report. 1 to 65,535. All methods count, except `OPTIONS`.
    ///
    /// A [permit](crate::Locks::semaphore) does not keep writers from each other and cannot claim the fence. Work that
    /// writes also takes [`Locks::write`](crate::Locks::write), on a resource of its own. Requests of unsafe methods
    /// run to their end, as under an exclusive lock. A number that differs from that of another route with the same
    /// resource is answered 500 and logged. While the lock store is unavailable, requests are refused.
    ///
    /// A handler that passes on the body of the service behind it also needs [`hold(Until::Body)`](Self::hold). To
    /// change the number in a rolling deployment, change the resource with it, as in `render-8:{format}`.
    ///
    /// ```
    /// # use axum::{Router, routing::post};
    /// # use stockade::{Locks, route_lock::RouteLock};
    /// # async fn render() {}
    /// let locks = Locks::memory();
    /// let lock = RouteLock::template(&locks, "render:{format}").permits(4);
    /// let app: Router = Router::new().route("/render/{format}", post(render).route_layer(lock));
    /// ```
    ///
    /// # Panics
    ///
    /// For 0 and more than 65,535 permits, for [`RouteLock::write_all`], and together with [`RouteLock::read`] or
    /// [`RouteLock::write`].
    #[must_use]
    #[track_caller]
    pub fn permits(mut self, permits: u32) -> Self {
        self.only_for_one("permits");
        permits_at_start(permits);
        self.settings.permits = permits;
        self.mode(Mode::Permit)
    }

    /// How long a request waits for its turn. Default 2 s, at most 24 hours; zero tries once.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.settings.wait = wait;
        self
    }

    /// How long a read waits for its turn, at most [`RouteLock::wait`]; zero tries once. After that, or if too many
    /// requests wait already, the read runs without the lock, marked [`Unlocked`](super::Unlocked). So a resource that
    /// is written all the time can still be read.
    ///
    /// An unlocked read sees committed data only, but a write may be under way. A [`Cached`](crate::extract::Cached)
    /// value then says `detail=unlocked` and carries no `ETag`. Default: reads wait as long as writes, and are refused
    /// like writes. Has no effect with [`RouteLock::write`] and [`RouteLock::permits`].
    ///
    /// # Panics
    ///
    /// For [`RouteLock::write_all`].
    #[must_use]
    #[track_caller]
    pub fn read_wait(mut self, wait: Duration) -> Self {
        self.only_for_one("read_wait");
        self.settings.read_wait = Some(wait);
        self
    }

    /// The lease, 100 ms to 5 min, renewed while the lock is held. Default: that of the locks.
    ///
    /// # Panics
    ///
    /// For a lease outside these limits.
    #[must_use]
    #[track_caller]
    pub fn lease(mut self, lease: Duration) -> Self {
        lease_at_start("lease", lease);
        self.settings.lease = Some(lease);
        self
    }

    /// How long a request may hold the lock, the body of its response included. Default 30 s. It must be longer than
    /// the handler takes: with zero, each handler that waits for anything is answered 503.
    #[must_use]
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.settings.max_hold = max;
        self
    }

    /// How long past [`RouteLock::max_hold`] a handler that has sent its commit may go on, so that its client gets its
    /// real answer. Default 10 s.
    #[must_use]
    pub fn commit_timeout(mut self, limit: Duration) -> Self {
        self.settings.commit_timeout = limit;
        self
    }

    /// The largest request body in bytes. Default 64 KiB. Has no effect with [`RouteLock::stream_body`].
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.settings.upload.limit = bytes;
        self
    }

    /// How long the whole request body may take to arrive. Default 5 s. Has no effect with [`RouteLock::stream_body`].
    #[must_use]
    pub fn body_timeout(mut self, limit: Duration) -> Self {
        self.settings.upload.timeout = limit;
        self
    }

    /// Leaves the request body to the handler, which then reads the body under the lock. A slow client can then hold
    /// the lock for up to [`RouteLock::max_hold`]. [`RouteLock::body_limit`] and [`RouteLock::body_timeout`] have no
    /// effect then.
    ///
    /// # Panics
    ///
    /// For [`RouteLock::write_all`], which finds its resources in the body.
    #[must_use]
    #[track_caller]
    pub fn stream_body(mut self) -> Self {
        self.only_for_one("stream_body");
        self.settings.stream_body = true;
        self
    }

    /// What requests in shared mode do when the lock store is unavailable. Default [`OnStoreError::Refuse`]. Requests
    /// in exclusive mode, and requests for a permit, are always refused. With [`RouteLock::read`] every method is in
    /// shared mode: a write then goes on without the lock, too.
    #[must_use]
    pub fn on_store_error(mut self, action: OnStoreError) -> Self {
        self.settings.on_store_error = action;
        self
    }

    /// When the lock is released. Default: before the head of the response goes out if the length of the body is known,
    /// as for a body in memory; at the end of the body if the length is unknown.
    ///
    /// A body that arrives from another service may have a known length, too. [`Until::Body`] holds the lock to the end
    /// of such a body.
    #[must_use]
    pub fn hold(mut self, until: Until) -> Self {
        self.settings.hold = Some(until);
        self
    }

    /// Lets handlers switch protocols (101, WebSocket). The lock ends with the handshake. Default: 501 instead.
    #[must_use]
    pub fn allow_upgrades(mut self) -> Self {
        self.settings.allow_upgrades = true;
        self
    }

    /// Renders the rejections of this route. Default: the renderer of
    /// [`LocksBuilder::on_reject`](crate::lock::LocksBuilder::on_reject), or problem+json.
    #[must_use]
    pub fn on_reject<F, R>(mut self, render: F) -> Self
    where
        F: Fn(Rejection) -> R + Send + Sync + 'static,
        R: IntoResponse,
    {
        self.settings.on_reject = Some(OnReject::new(render));
        self
    }

    /// Sets the mode of every method. Of two different modes, one would be dropped without a word.
    #[track_caller]
    fn mode(mut self, mode: Mode) -> Self {
        assert!(
            self.settings.mode.is_none_or(|present| present == mode),
            "`read`, `write` and `permits` exclude one another: leave one of them out"
        );
        self.settings.mode = Some(mode);
        self
    }

    #[track_caller]
    fn only_for_one(&self, setting: &str) {
        assert!(
            matches!(self.keys, Keys::One(_)),
            "`{setting}` can't be combined with `RouteLock::write_all`: leave it out, or lock one resource"
        );
    }
}
