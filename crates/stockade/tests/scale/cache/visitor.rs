//! The work of each process of a history under delegations: requests read under the lock of their route, and writers
//! write.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, Request},
    http::request::Parts,
    response::{IntoResponse, Response},
    routing::get,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stockade::{
    Cache,
    cache::Source,
    extract::{Cached, FromCache},
    postgres::Relay,
    resource::Key,
    route_lock::RouteLock,
};
use tokio::{task::JoinSet, time::sleep};
use tower::ServiceExt;

use super::{
    item::{KEYS, loader},
    record::{What, now},
    site::Seat,
    worker::Worker,
};
use crate::support::Item;

const READERS: usize = 4;
const WRITERS: usize = 2;
/// The most reads of one reader between two pauses. A delegation pays when many reads come together.
const BURST: u32 = 400;
const WAIT: Duration = Duration::from_secs(2);

/// The state of the routes.
#[derive(Clone)]
struct Shop(Cache<Item, i64>);

fn asked(parts: &Parts) -> Item {
    Item(parts.uri.path()[1..].to_owned())
}

impl FromRequestParts<Shop> for Item {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shop) -> Result<Self, Infallible> {
        Ok(asked(parts))
    }
}

impl FromCache<Shop> for i64 {
    type Key = Item;

    fn cache(shop: &Shop) -> &Cache<Item, Self> {
        &shop.0
    }

    fn version(&self) -> Option<u64> {
        u64::try_from(*self).ok()
    }
}

/// A handler whose answer carries the version that was read, and its source.
async fn show(version: Cached<i64>) -> Response {
    let read = (*version, version.info().source);
    let mut answer = ().into_response();
    answer.extensions_mut().insert(read);
    answer
}

fn routes(worker: &Worker) -> Router {
    let lock = RouteLock::key(&worker.locks, |parts| Key::of(&asked(parts)).ok()).wait(WAIT).read();
    Router::new().route("/{item}", get(show).route_layer(lock)).with_state(Shop(worker.cache.clone()))
}

async fn read(worker: &Worker, routes: Router, mut random: StdRng) {
    while !worker.over.load(Ordering::Relaxed) {
        let key = random.random_range(0..KEYS);
        for _ in 0..random.random_range(1..BURST) {
            let request = Request::get(format!("/{key}")).body(Body::empty()).unwrap();
            let begin = now();
            let Ok(answer) = routes.clone().oneshot(request).await;
            let Some((version, source)) = answer.extensions().get() else {
                // A refused request has no version to note.
                sleep(Duration::from_millis(5)).await;
                break;
            };
            let what = match source {
                Source::Local => What::Local,
                Source::Redis => What::Hit,
                _ => What::Load,
            };
            worker.log.note(what, key, begin, *version);
            tokio::task::yield_now().await;
        }
        sleep(Duration::from_micros(random.random_range(0..2000))).await;
    }
}

async fn write(worker: &Worker, mut random: StdRng) {
    while !worker.written.load(Ordering::Relaxed) {
        // A refused write has not happened. If a write fails otherwise, the database knows its outcome.
        let _ = worker.write_fenced(random.random_range(0..KEYS)).await;
        sleep(Duration::from_millis(random.random_range(5..60))).await;
    }
}

/// The whole life of a process. The role names the file of its log, and the seed of its random numbers.
pub(super) async fn visit(role: &str, seat: Seat) {
    let (path, seed) = role.split_once(' ').unwrap();
    let mut random = StdRng::seed_from_u64(seed.parse().unwrap());
    let cache = Cache::builder(&seat.redis).loader(loader(&seat.pool)).under_locks().build();
    let relay = Relay::spawn(seat.pool.clone(), [cache.invalidator()]);
    let visitor = Worker::new(path, cache, seat);
    let (mut writers, mut readers) = (JoinSet::new(), JoinSet::new());
    let mut next = || StdRng::seed_from_u64(random.random());
    for _ in 0..WRITERS {
        let (writer, random) = (Arc::clone(&visitor), next());
        writers.spawn(async move { write(&writer, random).await });
    }
    for _ in 0..READERS {
        let (reader, random) = (Arc::clone(&visitor), next());
        readers.spawn(async move { read(&reader, routes(&reader), random).await });
    }
    visitor.live(relay, writers, readers).await;
}
