mod model;

use std::sync::Arc;

use super::MemoryStore;
use crate::store::{
    LockStore,
    conformance::{Fixture, conformance},
};

async fn fixture() -> Fixture {
    let store: Arc<dyn LockStore> = Arc::new(MemoryStore::new());
    Fixture::new(vec![store], ())
}

conformance!(fixture: exclusive);
conformance!(fixture: queued);
