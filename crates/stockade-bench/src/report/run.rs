use std::{fmt, thread};

use serde::Serialize;
use stockade_testbed::{PostgresServer, RedisServer};
use time::OffsetDateTime;
use tokio::process::Command;

use crate::contender::Failure;

/// The sources, the day and the machine of a run.
#[derive(Default, Serialize)]
pub(crate) struct Run {
    commit: String,
    day: String,
    cores: usize,
    redis: String,
    postgres: String,
}

impl Run {
    pub(crate) async fn look(redis: &RedisServer, postgres: &PostgresServer) -> Result<Self, Failure> {
        let info = redis.command(&["INFO", "server"]).await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let program = postgres.bin().join("postgres").display().to_string();
        Ok(Self {
            commit: commit().await,
            day: OffsetDateTime::now_utc().date().to_string(),
            cores: thread::available_parallelism()?.get(),
            redis: version.unwrap_or("of an unknown version").trim().to_owned(),
            postgres: said(&program, &["--version"]).await.unwrap_or_else(|| "PostgreSQL".to_owned()),
        })
    }
}

/// The commit of the sources; it says so if they differ from it.
async fn commit() -> String {
    let Some(commit) = said("git", &["rev-parse", "--short", "HEAD"]).await else { return "unknown".to_owned() };
    let changed = said("git", &["status", "--porcelain", "--untracked-files=no"]).await;
    if changed.is_some_and(|files| files.is_empty()) { commit } else { format!("{commit}, changed") }
}

async fn said(program: &str, words: &[&str]) -> Option<String> {
    let ran = Command::new(program).args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output().await.ok()?;
    ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, day, cores, redis, postgres } = self;
        write!(
            f,
            "Measured on {day}, commit {commit}: {cores} cores, Redis {redis}, {postgres} with `fsync=off`, release build, "
        )?;
        write!(f, "mimalloc.")
    }
}
