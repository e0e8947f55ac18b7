use std::sync::Arc;

use super::handshake_error::HandshakeError;
use crate::redis::address::{ALONE, Expected, NODE, SENTINEL};

/// The oldest version that has all commands of the scripts.
const OLDEST: u32 = 7;

/// The fields of INFO: kind, role, run id and eviction policy in one command. INFO has the eviction policy even for
/// users who may not run CONFIG.
#[derive(Clone, Copy)]
pub(super) struct ServerInfo<'a>(pub(super) &'a str);

impl<'a> ServerInfo<'a> {
    pub(super) fn field(self, name: &'static str) -> Result<&'a str, HandshakeError> {
        self.find(name).ok_or(HandshakeError::Info { field: name })
    }

    /// Names the run of the server as a primary: its process and its replication history.
    ///
    /// The run id names only the process. A primary that followed its successor for a while and is the primary again
    /// has its old run id, but the data of the successor, which may lack the newest writes. Every promotion changes the
    /// replication id (<https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>). The id also
    /// changes when a first replica connects, as `redis-cli --rdb` does, and when a primary has been without replicas
    /// for `repl-backlog-ttl` (an hour by default). A new name for the same data costs loads and loses nothing, if all
    /// processes learn it: the link of a cache looks.
    pub(super) fn run(self) -> Result<Arc<str>, HandshakeError> {
        let process = self.field("run_id")?;
        // A service that does not tell it is named by the process alone.
        Ok(self.find("master_replid").map_or_else(|| process.into(), |history| format!("{process}-{history}").into()))
    }

    fn find(self, name: &str) -> Option<&'a str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
    }

    /// Whether the server is of this kind, if it says so.
    pub(super) fn is_a(self, expected: Expected) -> Result<(), HandshakeError> {
        // Valkey uses the second name.
        let mode = self.find("redis_mode").or_else(|| self.find("server_mode"));
        let kind = match (mode, self.find("cluster_enabled"), expected) {
            (Some("sentinel"), ..) => SENTINEL,
            (_, Some("1"), Expected::Single) => NODE,
            (_, Some("0"), Expected::Node) => ALONE,
            _ => return Ok(()),
        };
        Err(HandshakeError::Kind(kind))
    }

    /// Whether the server is recent enough, if it says its version.
    pub(super) fn is_recent(self) -> Result<(), HandshakeError> {
        let Some(version) = self.find("redis_version") else { return Ok(()) };
        let major = version.split('.').next().and_then(|major| major.parse().ok());
        if major.is_some_and(|major: u32| major < OLDEST) {
            return Err(HandshakeError::Version { found: version.to_owned() });
        }
        Ok(())
    }

    pub(super) fn is_primary(self) -> Result<(), HandshakeError> {
        if self.field("role")? == "master" {
            return Ok(());
        }
        let part = |name| self.find(name).unwrap_or("?");
        Err(HandshakeError::NotPrimary { primary: format!("{}:{}", part("master_host"), part("master_port")) })
    }
}

/// The name of the run in an answer to INFO, if all of it is there.
pub(in crate::redis) fn run_of(info: &str) -> Option<Arc<str>> {
    let info = ServerInfo(info);
    info.find("master_replid").and_then(|_| info.run().ok())
}

/// The process in the name of a run.
pub(crate) fn process_of(run: &str) -> &str {
    run.split_once('-').map_or(run, |(process, _)| process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_lacks_commands_of_the_scripts_is_refused_and_one_that_is_not_told_is_not() {
        let said = |info: &str| ServerInfo(info).is_recent();
        for (old, version) in [("redis_version:6.2.14\r\n", "6.2.14"), ("a:1\r\nredis_version:5.0.7", "5.0.7")] {
            assert!(matches!(said(old), Err(HandshakeError::Version { found }) if found == version));
        }
        for fine in ["redis_version:7.0.0", "redis_version:10.1", "redis_version:255.255.255", "role:master", ""] {
            assert!(said(fine).is_ok(), "{fine}");
        }
    }
}
