use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use stockade_testbed::{Leftovers, SentinelGroup};
use tokio::sync::OnceCell;

use super::{connected, patient};
use crate::store::{
    LockStore,
    conformance::{Fixture, Place, conformance},
};

/// One group for all tests, since its six processes take longer to start than a test runs. Each test has a namespace of
/// its own.
static GROUP: OnceCell<SentinelGroup> = OnceCell::const_new();
static TESTS: AtomicUsize = AtomicUsize::new(0);

/// The namespace of one test in the group. Its connections can't be distinguished from those of other tests.
struct Part {
    group: &'static SentinelGroup,
    namespace: String,
}

impl Place for Part {
    fn leftovers(&self) -> BoxFuture<'_, Leftovers> {
        Box::pin(async {
            let left = self.group.leftovers().await.unwrap();
            left.ignoring(|name| !name.starts_with(&format!("{}:", self.namespace)))
        })
    }
}

async fn fixture() -> Fixture {
    let group = GROUP.get_or_init(async || SentinelGroup::start().await.unwrap()).await;
    let namespace = format!("test-{}", TESTS.fetch_add(1, Ordering::Relaxed));
    let redis = patient(&group.url()).await.namespace(&namespace);
    let stores: [Arc<dyn LockStore>; 2] = [connected(&redis).await, connected(&redis).await];
    Fixture::new(stores.into(), Part { group, namespace })
}

conformance!(fixture);
