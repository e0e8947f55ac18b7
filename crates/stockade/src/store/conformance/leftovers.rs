use std::{
    any::Any,
    cell::RefCell,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use stockade_testbed::{Leftovers, RedisCluster, RedisServer, SentinelGroup};

use super::Ending;
use crate::store::LockStore;

thread_local! {
    /// The stores of the test that runs on this thread. The end of the test shuts them down.
    static STORES: RefCell<Vec<Weak<dyn LockStore>>> = const { RefCell::new(Vec::new()) };
}

/// Where the stores of a test keep their locks.
pub(crate) trait Place: Any + Send + Sync {
    /// The keys, subscriptions and connections that are left now.
    fn leftovers(&self) -> BoxFuture<'_, Leftovers>;
}

/// The memory of the process, which goes with the store.
impl Place for () {
    fn leftovers(&self) -> BoxFuture<'_, Leftovers> {
        Box::pin(async { Leftovers::default() })
    }
}

impl Place for RedisServer {
    fn leftovers(&self) -> BoxFuture<'_, Leftovers> {
        Box::pin(async { Self::leftovers(self).await.expect("the server can't be asked") })
    }
}

/// Independent servers.
impl Place for Vec<RedisServer> {
    fn leftovers(&self) -> BoxFuture<'_, Leftovers> {
        Box::pin(async move {
            let mut all = Leftovers::default();
            // A server that is down has lost its keys.
            for server in self.iter().filter(|server| server.pid() != 0) {
                let left = Place::leftovers(server).await;
                all.keys.extend(left.keys);
                all.channels.extend(left.channels);
                all.clients.extend(left.clients);
            }
            all
        })
    }
}

impl Place for SentinelGroup {
    fn leftovers(&self) -> BoxFuture<'_, Leftovers> {
        Box::pin(async { Self::leftovers(self).await.expect("the group can't be asked") })
    }
}

impl Place for RedisCluster {
    fn leftovers(&self) -> BoxFuture<'_, Leftovers> {
        Box::pin(async { Self::leftovers(self).await.expect("the cluster can't be asked") })
    }
}

/// The namespace of one test on servers that all tests share, since they take longer to start than a test runs. Its
/// connections can't be distinguished from those of other tests.
pub(crate) struct Part<P: 'static> {
    servers: &'static P,
    pub(crate) namespace: String,
}

impl<P> Part<P> {
    pub(crate) fn of(servers: &'static P) -> Self {
        static TESTS: AtomicUsize = AtomicUsize::new(0);
        Self { servers, namespace: format!("test-{}", TESTS.fetch_add(1, Ordering::Relaxed)) }
    }
}

impl<P: Place> Place for Part<P> {
    fn leftovers(&self) -> BoxFuture<'_, Leftovers> {
        Box::pin(async {
            let left = self.servers.leftovers().await;
            left.ignoring(|name| !name.starts_with(&format!("{}:", self.namespace)))
        })
    }
}

/// A store that the end of the test shuts down, even if the test still keeps it.
pub(crate) fn opened<S: LockStore>(store: S) -> Arc<S> {
    let store = Arc::new(store);
    let known: Weak<S> = Arc::downgrade(&store);
    STORES.with_borrow_mut(|stores| stores.push(known));
    store
}

/// The end of a test: shuts its stores down, and checks that they leave no keys, subscriptions, connections or tasks.
/// `way` is the proxy, for example, through which the stores reach their servers. It is dropped after the shutdown.
pub(crate) async fn end(ending: Ending, place: &dyn Place, way: impl Sized) {
    let stores: Vec<_> = STORES.take().iter().filter_map(Weak::upgrade).collect();
    join_all(stores.iter().map(|store| store.shutdown(Duration::from_secs(1)))).await;
    drop((stores, way));
    ending.reach(async || place.leftovers().await).await;
}
