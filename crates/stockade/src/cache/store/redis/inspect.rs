use std::time::Duration;

use redis::Value;
use serde::de::DeserializeOwned;

use super::remote::Remote;
use crate::{
    cache::{Kept, Tier, store::Read},
    clock::Instant,
    resource::Key,
};

/// Leases end by the server's clock, which this process knows only roughly.
const SLACK: Duration = Duration::from_secs(1);

impl<V: DeserializeOwned + Send + Sync + 'static> Remote<V> {
    /// What the server has of a key, and how long the lease of its load still lasts. It writes nothing.
    pub(crate) async fn inspect(&self, key: &Key) -> (Tier, Option<Duration>) {
        let (read, lease) = tokio::join!(self.read(key, Instant::now()), self.lease_left(key));
        let tier = match read {
            Read::Hit(entry, _) | Read::Stale(entry) => Tier::Kept(Kept::of(&entry)),
            Read::Miss => Tier::Empty,
            Read::Unreadable => Tier::Unreadable,
            Read::Down => Tier::Unavailable,
        };
        (tier, lease)
    }

    /// How long other callers would wait for the load that is running: the same rule as in lease.lua.
    async fn lease_left(&self, key: &Key) -> Option<Duration> {
        let shape = self.envelope.fingerprint();
        let mut command = redis::cmd("HMGET");
        command.arg(self.subscription.keys.entry(key));
        for field in ["tok", "tokx", "tokc"] {
            command.arg(format!("{field}:{shape}"));
        }
        let Ok(Value::Array(fields)) = self.command(key.bucket(), "cache_inspect", command).await else {
            return None;
        };
        let [Value::BulkString(_), Value::BulkString(ends), Value::BulkString(epoch)] = &fields[..] else {
            return None;
        };
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
        let left = self.subscription.clock.local(number(ends)?)?.since(Instant::now());
        let is_current = number(epoch) == Some(self.subscription.epoch());
        (is_current && !left.is_zero() && left <= self.settings.lease.saturating_add(SLACK))
            .then_some(left.min(self.settings.lease))
    }
}
