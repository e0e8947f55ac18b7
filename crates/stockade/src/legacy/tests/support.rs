use std::time::Duration;

use stockade_testbed::RedisServer;

pub(super) use crate::redis::LIMIT;
use crate::{
    legacy::{SetnxLock, SetnxLocks, Unit},
    redis::{Redis, eventually},
};

pub(super) const KEY: &str = "lock.foo";

pub(super) struct World {
    pub(super) server: RedisServer,
}

impl World {
    pub(super) async fn start() -> Self {
        Self { server: RedisServer::start().await.unwrap() }
    }

    /// Locks as another process would have them, with a command timeout for a busy machine.
    pub(super) async fn locks(&self) -> SetnxLocks {
        let redis = Redis::builder(self.server.url()).command_timeout(Duration::from_secs(5)).connect().await.unwrap();
        SetnxLocks::new(&redis).unwrap()
    }

    pub(super) async fn command(&self, words: &[&str]) -> String {
        self.server.command(words).await.unwrap().trim().to_owned()
    }

    pub(super) async fn value(&self) -> String {
        self.command(&["GET", KEY]).await
    }

    pub(super) async fn until_free(&self) {
        eventually("a free lock", async || self.command(&["EXISTS", KEY]).await == "0").await;
    }
}

pub(super) fn lock(locks: &SetnxLocks) -> SetnxLock {
    locks.lock(KEY).lease(Duration::from_secs(60)).wait(LIMIT)
}

/// An expired time, as a crashed holder leaves it.
pub(super) fn past() -> String {
    (Unit::Seconds.now() - 10).to_string()
}

/// The times that two clients write if both find the lock expired, the second one a moment later.
pub(super) fn times() -> [String; 2] {
    [11, 12].map(|later| (Unit::Seconds.now() + later).to_string())
}

pub(super) fn is_over(time: &str) -> bool {
    Unit::Seconds.left(time.parse().unwrap()).is_none()
}
