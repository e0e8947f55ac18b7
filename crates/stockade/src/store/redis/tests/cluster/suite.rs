use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use stockade_testbed::{Leftovers, RedisCluster};
use tokio::{
    sync::OnceCell,
    time::{sleep, timeout},
};

use crate::store::{
    LockStore,
    conformance::{Fixture, Place, conformance},
    redis::tests::{LIMIT, connected, patient},
};

/// One cluster for all tests, since it takes longer to start than a test runs. Each test has a namespace of its own.
static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
static TESTS: AtomicUsize = AtomicUsize::new(0);

/// The namespace of one test in the cluster. Its connections can't be distinguished from those of other tests.
struct Part {
    cluster: &'static RedisCluster,
    namespace: String,
}

impl Place for Part {
    fn leftovers(&self) -> BoxFuture<'_, Leftovers> {
        Box::pin(async {
            let left = self.cluster.leftovers().await.unwrap();
            left.ignoring(|name| !name.starts_with(&format!("{}:", self.namespace)))
        })
    }
}

async fn fixture() -> Fixture {
    let start = async || RedisCluster::builder().without_replicas().start().await.unwrap();
    let cluster = CLUSTER.get_or_init(start).await;
    let namespace = format!("test-{}", TESTS.fetch_add(1, Ordering::Relaxed));
    let redis = patient(&cluster.url()).await.namespace(&namespace);
    let stores: [Arc<dyn LockStore>; 2] = [connected(&redis).await, connected(&redis).await];
    for store in &stores {
        // Connects to every node, each of which may be late on a busy machine.
        let connected = async {
            while store.list(1).await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LIMIT, connected).await.unwrap_or_else(|_| panic!("not every node answers"));
    }
    Fixture::new(stores.into(), Part { cluster, namespace })
}

conformance!(fixture);
