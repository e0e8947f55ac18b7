use std::sync::Arc;

use stockade_testbed::RedisServer;

use super::{connected, patient};
use crate::store::{
    LockStore,
    conformance::{Fixture, conformance},
};

async fn fixture() -> Fixture {
    let server = RedisServer::start().await.unwrap();
    let redis = patient(&server.url()).await;
    let stores: [Arc<dyn LockStore>; 2] = [connected(&redis).await, connected(&redis).await];
    Fixture::new(stores.into(), server)
}

conformance!(fixture: exclusive);
conformance!(fixture: queued);
