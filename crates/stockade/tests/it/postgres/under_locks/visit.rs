use std::{convert::Infallible, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, OptionalFromRequestParts, Request},
    http::request::Parts,
    routing::get,
};
use stockade::{
    Cache, Locks,
    cache::CacheInfo,
    extract::{Cached, FromCache},
    resource::Key,
    route_lock::RouteLock,
};
use tokio::{sync::mpsc, task::JoinSet};
use tower::ServiceExt;

use crate::postgres::Sku;

#[derive(Clone)]
pub(super) struct Shop(Cache<Sku, i32>);

impl FromRequestParts<Shop> for Sku {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shop) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap())
    }
}

impl FromCache<Shop> for i32 {
    type Key = Sku;

    fn cache(shop: &Shop) -> &Cache<Sku, Self> {
        &shop.0
    }

    fn version(&self) -> Option<u64> {
        u64::try_from(*self).ok()
    }
}

/// A request that holds the lock of its route until the test ends it, and reads as often as the test wants. To a cache
/// this is like several requests that share a lock.
pub(super) struct Visit {
    parts: Parts,
    shop: Shop,
    request: JoinSet<()>,
    /// The request ends when this channel is closed.
    stay: mpsc::Receiver<Parts>,
}

impl Visit {
    /// A request that holds the lock of the stock `a` shared, and reads that stock.
    pub(super) async fn begin(locks: &Locks, cache: &Cache<Sku, i32>) -> Self {
        Self::under(Self::lock(locks, "a").read(), cache, "a").await
    }

    pub(super) fn lock(locks: &Locks, id: &'static str) -> RouteLock {
        RouteLock::key(locks, move |_| Key::of(&Sku(id)).ok())
    }

    /// A request that reads the stock `id` under this lock.
    pub(super) async fn under(lock: RouteLock, cache: &Cache<Sku, i32>, id: &'static str) -> Self {
        let (entered, mut stay) = mpsc::channel(1);
        let visit = move |request: Request| async move {
            entered.send(request.into_parts().0).await.unwrap();
            entered.closed().await;
        };
        let app: Router = Router::new().route("/", get(visit).route_layer(lock));
        let mut request = JoinSet::new();
        request.spawn(async { drop(app.oneshot(Request::new(Body::empty())).await) });
        let entered = tokio::time::timeout(Duration::from_secs(20), stay.recv()).await;
        let mut parts = entered.expect("never got the lock").expect("was refused");
        parts.extensions.insert(Sku(id));
        Self { parts, shop: Shop(cache.clone()), request, stay }
    }

    pub(super) async fn read(&mut self) -> Cached<i32> {
        <Cached<i32> as FromRequestParts<Shop>>::from_request_parts(&mut self.parts, &self.shop).await.unwrap()
    }

    /// Reads a row that need not exist. Returns where the answer came from.
    pub(super) async fn look(&mut self) -> CacheInfo {
        let found = <Cached<i32> as OptionalFromRequestParts<Shop>>::from_request_parts(&mut self.parts, &self.shop);
        found.await.unwrap();
        *self.parts.extensions.get().unwrap()
    }

    /// Ends the request, which releases its lock. Its parts stay, so code that holds them can go on reading.
    pub(super) async fn leave(&mut self) {
        self.stay.close();
        while self.request.join_next().await.is_some() {}
    }
}
