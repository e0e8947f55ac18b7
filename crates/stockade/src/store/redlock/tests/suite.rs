use std::sync::Arc;

use stockade_testbed::RedisServer;

use super::{Settings, connected};
use crate::store::{
    LockStore,
    conformance::{Fixture, conformance},
    redis::tests::patient,
};

async fn fixture() -> Fixture {
    let servers = RedisServer::start_many(3).await.unwrap();
    let mut handles = Vec::new();
    for server in &servers {
        handles.push(patient(&server.url()).await);
    }
    let store = async || connected(&handles, Settings::default()).await;
    let stores: [Arc<dyn LockStore>; 2] = [store().await, store().await];
    Fixture::new(stores.into(), servers).holders_only()
}

conformance!(fixture: exclusive);
