use std::sync::Arc;

use super::{World, connected};
use crate::store::{
    LockStore,
    conformance::{Fixture, conformance},
};

async fn fixture() -> Fixture {
    let world = World::start().await;
    let redis = world.redis().await;
    let stores: [Arc<dyn LockStore>; 2] = [connected(&redis).await, connected(&redis).await];
    Fixture::new(stores.into(), world)
}

conformance!(fixture);
