use std::sync::Arc;

use stockade_testbed::RedisServer;

use super::RedisStore;
use crate::{
    redis::Redis,
    store::{
        LockStore,
        conformance::{Fixture, conformance},
    },
};

mod suite {
    use super::*;

    async fn fixture() -> Fixture {
        let server = RedisServer::start().await.unwrap();
        let redis = Redis::connect(server.url()).await.unwrap();
        let stores: Vec<_> = (0..2).map(|_| RedisStore::open(&redis)).collect();
        for store in &stores {
            while !store.inner.link.is_up() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
        Fixture::new(stores.into_iter().map(|store| Arc::new(store) as Arc<dyn LockStore>).collect(), server)
    }

    conformance!(fixture);
}
