use std::sync::Arc;

use stockade_testbed::SentinelGroup;
use tokio::sync::OnceCell;

use super::{connected, patient};
use crate::store::{
    LockStore,
    conformance::{Fixture, Part, conformance},
};

/// One group for all tests.
static GROUP: OnceCell<SentinelGroup> = OnceCell::const_new();

async fn fixture() -> Fixture {
    let group = GROUP.get_or_init(async || SentinelGroup::start().await.unwrap()).await;
    let part = Part::of(group);
    let redis = patient(&group.url()).await.namespace(&part.namespace);
    let stores: [Arc<dyn LockStore>; 2] = [connected(&redis).await, connected(&redis).await];
    Fixture::new(stores.into(), part)
}

conformance!(fixture: exclusive);
conformance!(fixture: queued);
