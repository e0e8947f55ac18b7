use std::{
    env,
    ffi::OsStr,
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use reqwest::{StatusCode, Url};
use rustix::process::{Pid, Signal, kill_process};
use stockade_testbed::Watchdog;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use super::DemoError;

/// Another process may take a port between its choice and its use.
const START_ATTEMPTS: usize = 3;
const READY_LIMIT: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(20);
/// The instances' own grace and a little more.
const STOP_LIMIT: Duration = Duration::from_secs(30);
const LOG_TAIL: usize = 4_096;
/// What a child may see of this process's environment. Everything else might point it at servers that are not its own.
const PASSED_ON: [&str; 4] = ["PATH", "RUST_LOG", "RUST_BACKTRACE", "TMPDIR"];

/// What all instances share.
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
    child: Child,
    _watchdog: Watchdog,
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
        let mut attempt = 1;
        loop {
            let mut instance = self.spawn(name)?;
            match instance.until_ready(http, name).await {
                Err(DemoError::Ended { log, .. })
                    if attempt < START_ATTEMPTS && log.contains("ddress already in use") =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
                Ok(()) => return Ok(instance),
            }
        }
    }

    fn spawn(&self, name: &str) -> Result<Instance, DemoError> {
        let log = self.folder.join(format!("{name}.log"));
        let [listen, ops] = free_addresses().map_err(DemoError::Spawn)?;
        let mut command = self.command("serve", &log)?;
        command.env("LISTEN_ADDR", listen.to_string()).env("OPS_ADDR", ops.to_string());
        let child = command.spawn().map_err(DemoError::Spawn)?;
        let pid = child.id().ok_or_else(|| DemoError::Spawn(io::Error::other("the instance has no process id")))?;
        let watchdog = Watchdog::over(pid)?;
        Ok(Instance { child, _watchdog: watchdog, url: base(listen)?, ops: base(ops)?, log })
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
            .env("ADMIN_TOKEN", &self.admin_token);
        // In a group of its own, so that Ctrl-C reaches only this process, which then ends its children in order.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0).kill_on_drop(true);
        Ok(command)
    }
}

impl Instance {
    async fn until_ready(&mut self, http: &reqwest::Client, name: &str) -> Result<(), DemoError> {
        let mut ready = self.url.clone();
        ready.set_path("/readyz");
        let end = Instant::now() + READY_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().map_err(DemoError::Spawn)? {
                return Err(ended(name, status, &self.log));
            }
            let answer = http.get(ready.clone()).timeout(Duration::from_secs(2)).send().await;
            if answer.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(DemoError::NotReady { name: name.to_owned(), limit: READY_LIMIT, log: tail(&self.log) });
            }
            sleep(READY_POLL).await;
        }
    }

    /// Asks the instance to end, and kills it when it does not. An instance that ended otherwise is an error.
    pub(super) async fn stop(mut self, name: &str) -> Result<(), DemoError> {
        if let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            // Already gone is as good.
            let _ = kill_process(pid, Signal::TERM);
        }
        let status = match timeout(STOP_LIMIT, self.child.wait()).await {
            Ok(status) => status.map_err(DemoError::Spawn)?,
            Err(_) => {
                self.child.kill().await.map_err(DemoError::Spawn)?;
                return Err(DemoError::NotStopped { name: name.to_owned(), limit: STOP_LIMIT, log: tail(&self.log) });
            }
        };
        if status.success() { Ok(()) } else { Err(ended(name, status, &self.log)) }
    }
}

/// Two addresses that nobody listens on. Both are held until both are known, so that they differ.
fn free_addresses() -> io::Result<[SocketAddr; 2]> {
    let listeners = [TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
    Ok([listeners[0].local_addr()?, listeners[1].local_addr()?])
}

fn base(address: SocketAddr) -> Result<Url, DemoError> {
    format!("http://{address}").parse().map_err(|error| DemoError::Spawn(io::Error::other(error)))
}

fn ended(name: &str, status: ExitStatus, log: &Path) -> DemoError {
    DemoError::Ended { name: name.to_owned(), status, log: tail(log) }
}

fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_TAIL)..]).trim().to_owned()
}
