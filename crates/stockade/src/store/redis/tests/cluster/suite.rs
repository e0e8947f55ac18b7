use std::sync::Arc;

use stockade_testbed::RedisCluster;
use tokio::sync::OnceCell;

use crate::{
    redis::retried,
    store::{
        LockStore,
        conformance::{Fixture, Part, conformance},
        redis::tests::{connected, patient},
    },
};

/// One cluster for all tests.
static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();

async fn fixture() -> Fixture {
    let start = async || RedisCluster::builder().without_replicas().start().await.unwrap();
    let cluster = CLUSTER.get_or_init(start).await;
    let part = Part::of(cluster);
    let redis = patient(&cluster.url()).await.namespace(&part.namespace);
    let stores: [Arc<dyn LockStore>; 2] = [connected(&redis).await, connected(&redis).await];
    for store in &stores {
        // Connects to every node, each of which may be late on a busy machine.
        retried(async || store.list(1).await).await;
    }
    Fixture::new(stores.into(), part)
}

conformance!(fixture: exclusive);
conformance!(fixture: queued);
