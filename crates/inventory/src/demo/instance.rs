use std::{
    env,
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use reqwest::{StatusCode, Url};
use stockade_testbed::ChildProcess;
use tokio::{
    process::Command,
    time::{sleep, timeout},
};

use super::DemoError;

const READY_LIMIT: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(20);
/// The instances' own grace and a little more.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// For an instance that ended by itself: from the end of its output to its own.
const GONE_LIMIT: Duration = Duration::from_secs(1);
const LOG_TAIL: usize = 4_096;
/// The variables of this process that a child gets. Others might point the child at servers that are not its own.
const PASSED_ON: [&str; 4] = ["PATH", "RUST_LOG", "RUST_BACKTRACE", "TMPDIR"];

/// The servers and settings that all instances share.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) database_url: String,
    pub(super) redis_url: String,
    pub(super) admin_token: String,
    pub(super) folder: PathBuf,
}

/// A running `inventory serve`. Dropping it kills it; so does the end of this process, `kill -9` included.
#[derive(Debug)]
pub(super) struct Instance {
    process: ChildProcess,
    pub(super) url: Url,
    pub(super) ops: Url,
    log: PathBuf,
}

impl Settings {
    /// Runs `inventory migrate` to its end.
    pub(super) async fn migrate(&self) -> Result<(), DemoError> {
        let log = self.folder.join("migrate.log");
        let status = self.command("migrate", &log)?.status().await.map_err(DemoError::Spawn)?;
        if status.success() { Ok(()) } else { Err(ended("migrate", status, &log)) }
    }

    /// Starts an instance on free ports and returns once it is ready.
    pub(super) async fn serve(&self, http: &reqwest::Client, name: &str) -> Result<Instance, DemoError> {
        let log = self.folder.join(format!("{name}.log"));
        let mut command = self.command("serve", &log)?;
        command.env("LISTEN_ADDR", "127.0.0.1:0").env("OPS_ADDR", "127.0.0.1:0");
        let mut process = ChildProcess::start(command)?;
        let starting = async {
            let url = address(&mut process, "listening on ").await?;
            let ops = address(&mut process, "ops on ").await?;
            let ready = ops.join("/readyz").ok()?;
            while !http.get(ready.clone()).send().await.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                sleep(READY_POLL).await;
            }
            Some((url, ops))
        };
        let started = timeout(READY_LIMIT, starting).await;
        if let Ok(Some((url, ops))) = started {
            return Ok(Instance { process, url, ops, log });
        }
        match timeout(GONE_LIMIT, process.wait()).await {
            Ok(status) => Err(ended(name, status?, &log)),
            Err(_) => Err(DemoError::NotReady { name: name.to_owned(), limit: READY_LIMIT, log: tail(&log) }),
        }
    }

    fn command(&self, subcommand: &str, log: &Path) -> Result<Command, DemoError> {
        let output = File::create(log).map_err(DemoError::Spawn)?;
        let errors = output.try_clone().map_err(DemoError::Spawn)?;
        let mut command = Command::new(env::current_exe().map_err(DemoError::Spawn)?);
        command.arg(subcommand).env_clear();
        command.envs(PASSED_ON.iter().filter_map(|name| Some((OsStr::new(name), env::var_os(name)?))));
        command
            .env("DATABASE_URL", &self.database_url)
            .env("REDIS_URL", &self.redis_url)
            .env("ADMIN_TOKEN", &self.admin_token)
            .env("LAB", "on");
        // In a group of its own, so that Ctrl-C reaches only this process, which then ends its children in order.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0).kill_on_drop(true);
        Ok(command)
    }
}

impl Instance {
    /// Asks the instance to end, and kills it when it does not. An instance that ended otherwise is an error.
    pub(super) async fn stop(mut self, name: &str) -> Result<(), DemoError> {
        // An instance that is gone already is fine.
        let _ = self.process.interrupt();
        let Ok(status) = timeout(STOP_LIMIT, self.process.wait()).await else {
            self.process.kill().await?;
            return Err(DemoError::NotStopped { name: name.to_owned(), limit: STOP_LIMIT, log: tail(&self.log) });
        };
        let status = status?;
        if status.success() { Ok(()) } else { Err(ended(name, status, &self.log)) }
    }
}

/// The address that an instance prints behind `words`: the system chose its port.
async fn address(process: &mut ChildProcess, words: &str) -> Option<Url> {
    process.says(words, READY_LIMIT).await.ok()?.parse().ok()
}

fn ended(name: &str, status: ExitStatus, log: &Path) -> DemoError {
    DemoError::Ended { name: name.to_owned(), status, log: tail(log) }
}

fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_TAIL)..]).trim().to_owned()
}
