//! Asks a server how often it ran its commands.

use std::collections::BTreeMap;

use crate::{RedisServer, Result};

impl RedisServer {
    /// How often the server has run each command, those of scripts included, since it started or since `CONFIG
    /// RESETSTAT`. Commands are named as in `INFO commandstats`.
    ///
    /// # Errors
    ///
    /// When the server can't be asked.
    pub async fn calls(&self) -> Result<BTreeMap<String, u64>> {
        let stats = self.command(&["INFO", "commandstats"]).await?;
        let parsed = stats.lines().filter_map(|line| {
            let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((command.to_owned(), rest.split(',').next()?.parse().ok()?))
        });
        Ok(parsed.collect())
    }

    /// How often the server has run one command, as [`Self::calls`].
    ///
    /// # Errors
    ///
    /// When the server can't be asked.
    pub async fn calls_of(&self, command: &str) -> Result<u64> {
        Ok(self.calls().await?.remove(command).unwrap_or_default())
    }
}
