use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequest, FromRequestParts},
    http::request::Parts,
    response::IntoResponse,
};
use tower_layer::Layer;

use super::{
    Finder, KeyOf, Keys, OnReject, OnStoreError, Refusal, Rejection, Route, RouteLockService, Settings, Template, Until,
};
use crate::{
    lock::{Locks, Mode},
    resource::{Key, KeyError, Label, Resource},
};

/// A layer that runs each request of a route under the lock of the resource, or the resources, that the request names.
///
/// See the [module docs](super) for where it goes and what it promises.
#[derive(Clone, Debug)]
pub struct RouteLock {
    locks: Locks,
    keys: Keys,
    settings: Settings,
}

impl RouteLock {
    /// Locks the resource `K` that is extracted from the request; when that fails, its rejection is the answer.
    ///
    /// `K` is extracted without state, so that the layer fits a router of any state.
    #[must_use]
    pub fn by<K>(locks: &Locks) -> Self
    where
        K: Resource + FromRequestParts<()> + 'static,
    {
        Locks::announce(&Label::Borrowed(K::KIND));
        Self::new(locks, Keys::One(KeyOf::by::<K>()))
    }

    /// Locks `template` with path parameters filled in: `report:{day}` on the route `/reports/{day}`.
    ///
    /// The text up to the first `:` is the kind and is literal. Values are percent-decoded once and escaped as the ids
    /// of [`Key`] are, so `report:{day}` and a resource of the kind `report` with this id are the same resource. An
    /// empty value, one with control characters and a path with a `%` that begins no encoded byte are answered 400. The
    /// template is the metric label.
    ///
    /// # Panics
    ///
    /// When the template is malformed, or its placeholders are not kept apart by a `:`, as `Router::route` panics on a
    /// malformed path.
    #[must_use]
    #[track_caller]
    pub fn template(locks: &Locks, template: impl Into<Label>) -> Self {
        let label = template.into();
        match Template::parse(label.clone()) {
            Ok(template) => {
                Locks::announce(&label);
                Self::new(locks, Keys::One(KeyOf::Template(Arc::new(template))))
            }
            Err(error) => panic!("the lock template `{label}` is malformed: {error}"),
        }
    }

    /// Locks the key that `key` finds in the request; `None` runs the request without a lock.
    ///
    /// Where a request may name its resource wrongly use [`RouteLock::try_key`]: `Key::new(..).ok()` would let such a
    /// request run without a lock.
    #[must_use]
    pub fn key<F>(locks: &Locks, key: F) -> Self
    where
        F: Fn(&Parts) -> Option<Key> + Send + Sync + 'static,
    {
        Self::new(locks, Keys::One(KeyOf::Function(Arc::new(move |parts| Ok(key(parts))))))
    }

    /// As [`RouteLock::key`], with an answer for requests that name no resource they may name.
    #[must_use]
    pub fn try_key<F, R>(locks: &Locks, key: F) -> Self
    where
        F: Fn(&Parts) -> Result<Option<Key>, R> + Send + Sync + 'static,
        R: IntoResponse,
    {
        let key = move |parts: &Parts| key(parts).map_err(Refusal::answer);
        Self::new(locks, Keys::One(KeyOf::Function(Arc::new(key))))
    }

    /// Locks all resources that `keys` finds in the request, 1 to 64, exclusively and all or nothing, as
    /// [`Locks::write_all`] does: requests that name the same resources in different orders never wait for each other
    /// in a circle.
    ///
    /// `keys` is given what an extractor made of the request: of its path, its headers, or its body, which is in memory
    /// by then. The extractor's rejection is the answer to a request that it refuses; one that names no resource, or
    /// more than 64, is answered 400. The handler extracts the body once more, and takes
    /// [`MultiFence`](crate::lock::MultiFence) in place of `Fence`.
    ///
    /// It is the only lock of its route: within another `RouteLock` it is refused as `nested-lock`.
    ///
    /// ```
    /// # use std::borrow::Cow;
    /// # use axum::{Json, Router, routing::post};
    /// # use stockade::{Locks, Resource, lock::MultiFence, resource::Key, route_lock::RouteLock};
    /// #[derive(serde::Deserialize)]
    /// struct Sku(String);
    /// # impl Resource for Sku {
    /// #     const KIND: &'static str = "stock";
    /// #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
    /// # }
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Transfer {
    ///     from: Sku,
    ///     to: Sku,
    ///     quantity: u32,
    /// }
    ///
    /// async fn transfer(fences: MultiFence, Json(order): Json<Transfer>) -> (MultiFence, String) {
    ///     // `fences.begin(&pool)` is a transaction that has claimed both.
    ///     (fences, format!("{} of {} are {} now", order.quantity, order.from.0, order.to.0))
    /// }
    ///
    /// let locks = Locks::memory();
    /// let both = RouteLock::write_all(&locks, |Json(order): Json<Transfer>| [Key::of(&order.from), Key::of(&order.to)]);
    /// let app: Router = Router::new().route("/transfers", post(transfer).route_layer(both));
    /// ```
    #[must_use]
    pub fn write_all<E, M, F, I>(locks: &Locks, keys: F) -> Self
    where
        E: FromRequest<(), M> + Send,
        F: Fn(E) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = Result<Key, KeyError>>,
    {
        Self::new(locks, Keys::Several(Finder::new(keys))).write()
    }

    fn new(locks: &Locks, keys: Keys) -> Self {
        Self { locks: locks.clone(), keys, settings: Settings::default() }
    }

    /// Shared for every method. Default: shared for safe methods, exclusive for the others. `OPTIONS` never locks.
    ///
    /// # Panics
    ///
    /// For [`RouteLock::write_all`].
    #[must_use]
    #[track_caller]
    pub fn read(mut self) -> Self {
        self.only_for_one("read");
        self.settings.mode = Some(Mode::Read);
        self
    }

    /// Exclusive for every method except `OPTIONS`. Requests then run as those of unsafe methods do, also `GET`.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.settings.mode = Some(Mode::Write);
        self
    }

    /// At most so many requests at a time hold the resource, over the whole fleet, whatever their methods except
    /// `OPTIONS`: a bulkhead in front of what takes no more, a supplier's service or an expensive report. 1 to 65,535.
    ///
    /// A [permit](Locks::semaphore) neither keeps readers from each other's writes nor claims the fence: work that
    /// writes takes [`Locks::write`] as well, on a resource of its own. Requests of unsafe methods run to their end, as
    /// under an exclusive lock. A number that is not allowed, or another than routes with the same resource have, is
    /// answered 500 and logged. When the lock store is unavailable, requests are refused.
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
    /// For [`RouteLock::write_all`].
    #[must_use]
    #[track_caller]
    pub fn permits(mut self, permits: u32) -> Self {
        self.only_for_one("permits");
        self.settings.mode = Some(Mode::Permit);
        self.settings.permits = permits;
        self
    }

    /// How long a request waits for its turn. Default 2 s; zero tries once.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.settings.wait = wait;
        self
    }

    /// How long a read waits for its turn, at most [`RouteLock::wait`]; zero tries once. Then it runs without the lock,
    /// marked [`Unlocked`](super::Unlocked), also when too many wait already: a resource that is written more often
    /// than it can be still has readers. What such a read sees is committed, but a write may be under way; a
    /// [`Cached`](crate::extract::Cached) value says `detail=unlocked` then and carries no `ETag`. Default: reads wait
    /// as long as writes and are refused as these are.
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

    /// The lease, renewed while the lock is held. Default: that of the locks.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = Some(lease);
        self
    }

    /// How long a request may hold the lock, the body of its response included. Default 30 s.
    #[must_use]
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.settings.max_hold = max;
        self
    }

    /// How long past [`RouteLock::max_hold`] a handler that has sent its commit may go on, so that its real answer can
    /// be given. Default 10 s.
    #[must_use]
    pub fn commit_timeout(mut self, limit: Duration) -> Self {
        self.settings.commit_timeout = limit;
        self
    }

    /// The largest request body in bytes. Default 64 KiB.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.settings.upload.limit = bytes;
        self
    }

    /// How long the whole request body may take to arrive. Default 5 s.
    #[must_use]
    pub fn body_timeout(mut self, limit: Duration) -> Self {
        self.settings.upload.timeout = limit;
        self
    }

    /// Leaves the request body to the handler, which then reads it under the lock: a slow client holds the lock for as
    /// long as it likes, up to [`RouteLock::max_hold`].
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

    /// What reads do when the lock store is unavailable. Default [`OnStoreError::Refuse`]. Writes are always refused.
    #[must_use]
    pub fn on_store_error(mut self, action: OnStoreError) -> Self {
        self.settings.on_store_error = action;
        self
    }

    /// When the lock is given back. Default: before the head of the response goes out when the length of its body is
    /// known, since the body is then complete; at the end of the body when it is streamed.
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

    /// Renders the rejections of this route. Default: what the locks were built with, else problem+json.
    #[must_use]
    pub fn on_reject<F, R>(mut self, render: F) -> Self
    where
        F: Fn(Rejection) -> R + Send + Sync + 'static,
        R: IntoResponse,
    {
        self.settings.on_reject = Some(OnReject::new(render));
        self
    }

    #[track_caller]
    fn only_for_one(&self, setting: &str) {
        assert!(
            matches!(self.keys, Keys::One(_)),
            "`{setting}` does not go with `RouteLock::write_all`: leave it out, or lock one resource"
        );
    }
}

impl<S> Layer<S> for RouteLock {
    type Service = RouteLockService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let route = Route::new(self.locks.clone(), self.keys.clone(), self.settings.clone());
        RouteLockService::new(inner, Arc::new(route))
    }
}
