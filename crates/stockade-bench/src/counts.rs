//! The counts of the other program of this crate, which counts its own allocations.

use std::env;

use stockade_testbed::RedisServer;
use tokio::process::Command;

use crate::{contender::Failure, goals, report::Figures};

/// The allocations of one operation of each path.
pub(crate) async fn allocations(server: &RedisServer) -> Result<Figures, Failure> {
    Figures::new(goals::ALLOCATIONS, &["allocations"], counted(server, "allocations").await?)
}

/// The memory of a lock, a waiter and a cached value.
pub(crate) async fn memory(server: &RedisServer) -> Result<Figures, Failure> {
    Figures::new(
        "memory of one; counted in front of the system's allocator",
        &["bytes asked of the allocator and kept", "bytes at Redis, by MEMORY USAGE of all keys"],
        counted(server, "memory").await?,
    )
}

/// Lines of a name and its figures, with tabs between.
async fn counted(server: &RedisServer, what: &str) -> Result<Vec<(String, Vec<f64>)>, Failure> {
    let program = env::current_exe()?.with_file_name("stockade-count");
    let ran = Command::new(&program).arg(what).env("REDIS_URL", server.url()).kill_on_drop(true).output().await;
    let ran = ran.map_err(|error| format!("{}: {error}; `make bench` builds it", program.display()))?;
    if !ran.status.success() {
        return Err(format!("{} {what}: {}", program.display(), String::from_utf8_lossy(&ran.stderr)).into());
    }
    let row = |line: &str| {
        let mut words = line.split('\t');
        let name = words.next().unwrap_or_default().to_owned();
        Ok((name, words.map(str::parse).collect::<Result<_, _>>()?))
    };
    String::from_utf8(ran.stdout)?.lines().map(row).collect()
}
