use std::sync::Arc;

use axum::{
    extract::{FromRequest, FromRequestParts},
    http::request::Parts,
    response::IntoResponse,
};
use tower_layer::Layer;

use super::{KeyOf, Keys, Pace, Refusal, Route, RouteLockService, Settings, Template, extract, finder};
use crate::{
    lock::Locks,
    resource::{Key, KeyError, Label, Resource, is_name},
};

/// A layer that runs each request of a route under the lock of the resource, or the resources, that the request names.
///
/// See the [module docs](super) for where it goes and what it promises.
#[derive(Clone, Debug)]
pub struct RouteLock {
    locks: Locks,
    pub(super) keys: Keys,
    pub(super) settings: Settings,
    /// Here, because axum may make a service of this layer for each request.
    pace: Arc<Pace>,
}

impl RouteLock {
    /// Locks the resource `K`, which is extracted from the request. If the extractor refuses the request, its rejection
    /// is the answer. `K` is extracted without state, so the layer fits a router of any state.
    ///
    /// # Panics
    ///
    /// If [`Resource::KIND`] is no name: no request could be locked.
    #[must_use]
    #[track_caller]
    pub fn by<K>(locks: &Locks) -> Self
    where
        K: Resource + FromRequestParts<()> + 'static,
    {
        assert!(is_name(K::KIND), "{}", KeyError::Name(K::KIND.to_owned()));
        Locks::announce(&Label::Borrowed(K::KIND));
        Self::new(locks, Keys::One(KeyOf::Extractor(extract::<K>)))
    }

    /// Locks `template` with path parameters filled in: `report:{day}` on the route `/reports/{day}`.
    ///
    /// The text up to the first `:` is the kind and is literal. Values are percent-decoded once and escaped like the
    /// ids of a [`Key`], so `report:{day}` and a resource of the kind `report` with this id are the same resource. Each
    /// spelling is a resource of its own: if the handler parses the value, so that `7` and `07` are the same to it, lock
    /// what it has parsed, with [`RouteLock::by`].
    /// Three requests are answered 400: an empty value, a value with control characters, and a path with a `%` that
    /// begins no encoded byte. The template is the metric label.
    ///
    /// # Panics
    ///
    /// If the template is malformed, or if no `:` stands between two placeholders. `Router::route` panics on a
    /// malformed path in the same way.
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

    /// Locks the key that `key` finds in the request. `None` runs the request without a lock, and as without
    /// this layer: its handler is dropped when the client goes away.
    ///
    /// `key` sees headers and URI, but no path parameters by name. If the key has some, use [`RouteLock::by`]: its
    /// extractor can read path and headers together.
    ///
    /// If a request may name its resource wrongly, use [`RouteLock::try_key`]: with `Key::new(..).ok()` such a request
    /// would run without a lock.
    #[must_use]
    pub fn key<F>(locks: &Locks, key: F) -> Self
    where
        F: Fn(&Parts) -> Option<Key> + Send + Sync + 'static,
    {
        Self::new(locks, Keys::One(KeyOf::Function(Arc::new(move |parts| Ok(key(parts))))))
    }

    /// Like [`RouteLock::key`], with an answer for requests that name their resource wrongly.
    #[must_use]
    pub fn try_key<F, R>(locks: &Locks, key: F) -> Self
    where
        F: Fn(&Parts) -> Result<Option<Key>, R> + Send + Sync + 'static,
        R: IntoResponse,
    {
        let key = move |parts: &Parts| key(parts).map_err(Refusal::answer);
        Self::new(locks, Keys::One(KeyOf::Function(Arc::new(key))))
    }

    /// Locks all resources that `keys` finds in the request, 1 to 64, exclusively and all or nothing, like
    /// [`Locks::write_all`]. Requests that name the same resources in different orders never deadlock.
    ///
    /// `keys` gets the value of an extractor, which reads the path, the headers or the body. The body is in memory by
    /// then. If the extractor refuses the request, its rejection is the answer. A request that names no resource, or
    /// more than 64, is answered 400. The handler extracts the body a second time, and takes
    /// [`MultiFence`](crate::lock::MultiFence) in place of `Fence`.
    ///
    /// The route can have no other lock: within another `RouteLock` the request is refused as `nested-lock`.
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
        Self::new(locks, Keys::Several(finder(keys))).write()
    }

    fn new(locks: &Locks, keys: Keys) -> Self {
        Self { locks: locks.clone(), keys, settings: Settings::default(), pace: Arc::default() }
    }
}

impl<S> Layer<S> for RouteLock {
    type Service = RouteLockService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { locks, keys, settings, pace } = self.clone();
        RouteLockService::new(inner, Arc::new(Route { locks, keys, settings, pace }))
    }
}
