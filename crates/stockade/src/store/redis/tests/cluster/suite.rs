use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use stockade_testbed::{Leftovers, RedisCluster};
use tokio::sync::OnceCell;

use crate::store::{
    LockStore,
    conformance::{Fixture, Place, conformance},
    redis::tests::{connected, patient},
};

/// One cluster for all tests, each of which has a namespace of its own: it takes longer to start than a test runs.
static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
static TESTS: AtomicUsize = AtomicUsize::new(0);

/// What one test has of the cluster. Connections can't be told from those of other tests.
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
        // Connects to every node.
        store.list(1).await.unwrap();
    }
    Fixture::new(stores.into(), Part { cluster, namespace })
}

conformance!(fixture);
