use std::{borrow::Cow, io::Write, time::Duration};

use futures_util::future::join_all;
use stockade::{
    Locks, Redis, Resource,
    lock::{Guard, LockError, LocksBuilder},
};
use stockade_testbed::RedisServer;
pub(crate) use stockade_testbed::eventually as until;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

/// The limit for each wait. Only a failing test reaches it, however busy the machine is.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

static MACHINE: Semaphore = Semaphore::const_new(2);

/// Reserves the whole machine, for a test that measures.
pub(crate) async fn turn() -> SemaphorePermit<'static> {
    MACHINE.acquire_many(2).await.unwrap()
}

/// Reserves half of the machine, for a test that mostly waits for time to pass or for a failover.
pub(crate) async fn half() -> SemaphorePermit<'static> {
    MACHINE.acquire().await.unwrap()
}

#[derive(Clone, Debug)]
pub(crate) struct Item(pub(crate) String);

impl Resource for Item {
    const KIND: &'static str = "scale";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

/// Locks of one more process, connected.
pub(crate) async fn process(url: &str, builder: LocksBuilder) -> Locks {
    // With a short time-out, a stall of the machine would make commands late, and each would be sent and counted again.
    let redis = Redis::builder(url).command_timeout(Duration::from_secs(10)).connect().await.unwrap();
    let locks = builder.redis(&redis);
    until("a connection", async || locks.list(1).await.is_ok()).await;
    locks
}

/// Asks until the store answers in time. It may not while it is busy, or while a server is being replaced.
pub(crate) async fn retried<T>(ask: impl AsyncFn() -> Result<T, LockError>) -> T {
    let limit = Instant::now() + LIMIT;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < limit, "{error}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Takes these locks. The processes take them in turn.
pub(crate) async fn take_all(processes: &[Locks], names: impl IntoIterator<Item = String>) -> Vec<Guard> {
    let mut requests = names.into_iter().zip(processes.iter().cycle()).peekable();
    let mut guards = Vec::new();
    while requests.peek().is_some() {
        let some = requests.by_ref().take(100).map(async |(name, locks)| {
            let item = Item(name);
            retried(async || locks.write(&item).acquire().await).await
        });
        guards.extend(join_all(some).await);
    }
    guards
}

/// Names of the keys of locks that are left, without floors.
pub(crate) async fn keys(server: &RedisServer) -> Vec<String> {
    let keys = server.command(&["KEYS", "*"]).await.unwrap();
    let names = keys.split_whitespace().filter(|key| !key.ends_with("}f"));
    names.map(str::to_owned).collect()
}

/// Prints the text whether or not the test passes.
pub(crate) fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "\n{text}");
}
