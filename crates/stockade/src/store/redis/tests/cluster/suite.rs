use std::sync::{
    Arc, Weak,
    atomic::{AtomicU32, Ordering},
};

use stockade_testbed::RedisCluster;
use tokio::sync::Mutex;

use crate::{
    redis::Redis,
    store::{
        LockStore,
        conformance::{Fixture, conformance},
        redis::tests::connected,
    },
};

/// A cluster takes seconds to start: tests that run at the same time share one, each with a namespace of its own.
static SHARED: Mutex<Weak<RedisCluster>> = Mutex::const_new(Weak::new());
static TESTS: AtomicU32 = AtomicU32::new(0);

async fn fixture() -> Fixture {
    let mut shared = SHARED.lock().await;
    let cluster = match shared.upgrade() {
        Some(cluster) => cluster,
        None => Arc::new(RedisCluster::builder().without_replicas().start().await.unwrap()),
    };
    *shared = Arc::downgrade(&cluster);
    drop(shared);
    let namespace = format!("test{}", TESTS.fetch_add(1, Ordering::Relaxed));
    let redis = Redis::connect(cluster.url()).await.unwrap().namespace(&namespace);
    let stores: [Arc<dyn LockStore>; 2] = [connected(&redis).await, connected(&redis).await];
    Fixture::new(stores.into(), cluster)
}

conformance!(fixture);
