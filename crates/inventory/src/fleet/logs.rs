//! The logs of the instances, in Redis. An instance writes its log only while somebody reads the logs of all: reading
//! leaves a mark, which the next announcement of each instance sees.

use std::{sync::LazyLock, time::Duration};

use deadpool_redis::redis::{Script, cmd};

use super::{
    Fleet,
    announcer::key,
    member::{LEASE, Member},
};

/// How long an instance goes on writing after somebody read.
const READ: Duration = Duration::from_secs(15);

/// The largest log that is read, in bytes.
const LARGEST: usize = 256 * 1024;

static READ_LOGS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/read_logs.lua")));

impl Fleet {
    /// Writes the log of this instance with each announcement while somebody reads the logs, until it is dropped. `log`
    /// is called each time.
    pub(crate) async fn publish(mut self, log: impl Fn() -> Option<String>) {
        let key = log_key(&self.id);
        while self.listed.changed().await.is_ok() {
            if !self.listed.borrow_and_update().is_read {
                continue;
            }
            let Some(text) = log() else { continue };
            let mut set = cmd("SET");
            set.arg(&key).arg(text).arg("PX").arg(LEASE.as_millis().to_string());
            if let Err(error) = self.link.command::<()>(&set).await {
                tracing::debug!(%error, "the log of this instance is not written for the others");
            }
        }
    }

    /// The other instances, each with its log if it has written one lately. They write for the next 15 s.
    pub(crate) async fn logs(&self) -> Vec<(Member, Option<String>)> {
        let mut others = self.others();
        others.retain(|member| member.age < LEASE);
        let keys: Vec<_> = [key("read")].into_iter().chain(others.iter().map(|member| log_key(&member.id))).collect();
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        let args = [READ.as_millis().to_string(), LARGEST.to_string()];
        let read = self.link.run::<Vec<Vec<u8>>>(&READ_LOGS, &keys, &args.each_ref().map(String::as_str)).await;
        let logs = read.unwrap_or_else(|error| {
            tracing::debug!(%error, "the logs of other instances were not read");
            Vec::new()
        });
        // One that is no text says nothing about the others.
        let mut logs = logs.into_iter().map(|log| String::from_utf8(log).ok().filter(|log| !log.is_empty()));
        others.into_iter().map(|member| (member, logs.next().flatten())).collect()
    }
}

fn log_key(id: &str) -> String {
    key(&format!("log:{id}"))
}
