use std::{any::Any, time::Duration};

use futures_util::future::BoxFuture;
use stockade_testbed::{Leftovers, RedisCluster, RedisServer, SentinelGroup};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

/// How long what a store has left may take to go. Shorter than queue entries and the leases of most tests live: what only
/// expires is left behind.
const PATIENCE: Duration = Duration::from_secs(6);

/// Where the stores of a test keep their locks.
pub(crate) trait Place: Any + Send + Sync {
    /// Keys, subscriptions and connections that are there.
    fn leftovers(&self) -> BoxFuture<'_, Leftovers>;
}

/// The memory of the process: it goes with the store.
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
            for server in self.iter() {
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

pub(crate) async fn until_without_leftovers(place: &dyn Place) {
    let limit = Instant::now() + PATIENCE;
    loop {
        let left = place.leftovers().await;
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < limit, "left behind: {left}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Tasks of the runtime that have not ended.
pub(crate) fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Waits until there are no more tasks than before the test. Timers belong to tasks.
pub(crate) async fn until_tasks_end(before: usize) {
    let limit = Instant::now() + PATIENCE;
    while alive_tasks() > before {
        assert!(Instant::now() < limit, "{} tasks are left, {before} were there before", alive_tasks());
        sleep(Duration::from_millis(1)).await;
    }
}
