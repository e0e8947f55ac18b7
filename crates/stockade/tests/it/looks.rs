//! Inspects all keys of all caches on a server, in one atomic step.

use std::time::Duration;

use stockade_testbed::{RedisServer, Result};

/// The result of a look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// Describes a state that must never occur. Empty if there is none.
    pub(crate) broken: String,
    /// How many values are stored.
    pub(crate) values: u64,
    /// How many loads have a lease that has not expired.
    pub(crate) loads: u64,
    /// The transactions that have announced their commit.
    pub(crate) transactions: Vec<String>,
}

/// Inspects the keys, and fails if their state is one that must never occur.
pub(crate) async fn look(server: &RedisServer) -> Look {
    let look = try_look(server).await.unwrap();
    assert_eq!(look.broken, "", "{look:?}");
    look
}

/// [`look`] at a server that may be down.
pub(crate) async fn try_look(server: &RedisServer) -> Result<Look> {
    let script = include_str!("../../src/cache/store/redis/tests/scripts/invariants.lua");
    let reply = server.command_within(Duration::from_secs(60), &["EVAL", script, "0"]).await?;
    let mut lines = reply.split('\n');
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let (broken, _now, values, loads) = (next(), next(), next(), next());
    let (values, loads) = (values.parse().unwrap(), loads.parse().unwrap());
    let transactions = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    Ok(Look { broken, values, loads, transactions })
}
