//! A server process that never outlives its owner.

pub(crate) mod family;

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::Pid;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{ChildStdin, Command},
    time::{Instant, sleep, timeout},
};

use crate::{Error, Result, account::Account};

/// How long a server may take to become ready, and to be gone when killed. Only a broken one needs it.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

const SUPERVISE: &str = include_str!("supervise.sh");
const LOG_TAIL: usize = 4096;

/// A program and its arguments, with the folder that it works in.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: Vec<OsString>,
    pub(crate) environment: Vec<(&'static str, OsString)>,
    pub(crate) folder: &'a Path,
    pub(crate) account: Option<Account>,
}

impl Launch<'_> {
    fn command_line(&self) -> String {
        let words = std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(OsString::as_os_str));
        words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A running server and the shell that watches over it. Dropping it kills the server.
#[derive(Debug)]
pub(crate) struct Child {
    supervisor: tokio::process::Child,
    /// The pipe that tells the supervisor of the owner's end: held, never written.
    _owner: ChildStdin,
    pid: Pid,
    command: String,
    log: PathBuf,
}

impl Child {
    /// Starts the server and its supervisor.
    pub(crate) async fn spawn(launch: Launch<'_>) -> Result<Self> {
        let command = launch.command_line();
        let doing = || Error::io(format!("start `{command}`"));
        let log = launch.folder.join("log");
        let output = File::options().create(true).append(true).open(&log).map_err(doing())?;

        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(SUPERVISE).arg("testbed").arg(launch.folder).arg(launch.program).args(&launch.args);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(output);
        shell.current_dir(launch.folder).process_group(0);
        // Messages in the log are compared, so they must be the untranslated ones.
        shell.env("LC_ALL", "C");
        for name in ["PGDATA", "PGPORT", "PGHOST", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGOPTIONS"] {
            shell.env_remove(name);
        }
        shell.envs(launch.environment);
        if let Some(account) = launch.account {
            shell.uid(account.uid).gid(account.gid);
        }

        let mut supervisor = shell.spawn().map_err(doing())?;
        let missing = || io::Error::other("the supervisor has no pipes");
        let owner = supervisor.stdin.take().ok_or_else(missing).map_err(doing())?;
        let stdout = supervisor.stdout.take().ok_or_else(missing).map_err(doing())?;
        let mut line = String::new();
        let reading = timeout(LIMIT, BufReader::new(stdout).read_line(&mut line)).await;
        reading.map_err(|_| io::Error::from(io::ErrorKind::TimedOut)).and_then(|read| read).map_err(doing())?;
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the supervisor told no process id")).map_err(doing())?;
        tracing::debug!(pid = pid.as_raw_nonzero().get(), %command, "server started");
        Ok(Self { supervisor, _owner: owner, pid, command, log })
    }

    /// The server's own process id, not its supervisor's.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until `ready` is true, 30 s at most. A server that ends meanwhile is an error with its log.
    pub(crate) async fn until_ready(&mut self, mut ready: impl AsyncFnMut(Pid) -> bool) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        let mut pause = Duration::from_millis(2);
        loop {
            if let Some(status) = self.ended()? {
                return Err(Error::Died { command: self.command.clone(), status, log: self.log_tail() });
            }
            if timeout(Duration::from_secs(1), ready(self.pid)).await.unwrap_or(false) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Error::NotReady { command: self.command.clone(), limit: LIMIT, log: self.log_tail() });
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    fn ended(&mut self) -> Result<Option<String>> {
        let status = self.supervisor.try_wait().map_err(Error::io(format!("wait for `{}`", self.command)))?;
        Ok(status.map(|status| status.to_string()))
    }

    /// Kills the server and its children, and returns when none of them is left.
    pub(crate) async fn kill(mut self) -> Result<()> {
        let mut left = if self.ended()?.is_none() { self.kill_now()? } else { Vec::new() };
        let deadline = Instant::now() + LIMIT;
        // The supervisor waits for the server. This process can't wait for the server's orphans, only watch them.
        let supervisor = timeout(LIMIT, self.supervisor.wait()).await;
        loop {
            left.retain(|pid| family::is_alive(*pid));
            if left.is_empty() && supervisor.is_ok() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let pids = left.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
                return Err(Error::StillRunning { command: self.command.clone(), pids, limit: LIMIT });
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn kill_now(&self) -> Result<Vec<Pid>> {
        family::kill(self.pid).map_err(|error| Error::io(format!("kill `{}`", self.command))(error.into()))
    }

    /// The end of the server's output, for error messages.
    pub(crate) fn log_tail(&self) -> String {
        log_tail(&self.log)
    }
}

impl Drop for Child {
    #[expect(clippy::disallowed_methods, reason = "nothing can be awaited in a drop, and it takes a few milliseconds")]
    fn drop(&mut self) {
        // The supervisor kills the server too once its pipe closes, but this way the server is killed on return. The
        // folder may be removed next, and the supervisor still reads there what the server leaves in the machine.
        if matches!(self.ended(), Ok(None)) && self.kill_now().is_ok() {
            // A second at most: the supervisor has little to do, and nobody can be told that it hangs.
            for _ in 0..1_000 {
                if !matches!(self.ended(), Ok(None)) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// The end of a log file.
pub(crate) fn log_tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let tail = &bytes[bytes.len().saturating_sub(LOG_TAIL)..];
    String::from_utf8_lossy(tail).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn launch<'a>(folder: &'a Path, script: &str) -> Launch<'a> {
        let args = vec!["-c".into(), script.into()];
        Launch { program: Path::new("/bin/sh"), args, environment: Vec::new(), folder, account: None }
    }

    #[tokio::test]
    async fn a_child_that_ends_during_start_is_an_error_with_command_line_and_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Child::spawn(launch(folder.path(), "echo no such thing >&2; exit 3")).await.unwrap();
        let error = child.until_ready(async |_| false).await.unwrap_err().to_string();
        assert!(error.contains("/bin/sh -c 'echo no such thing >&2; exit 3'"), "{error}");
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("no such thing"), "{error}");
    }

    #[tokio::test]
    async fn a_killed_child_is_gone_with_its_children_even_when_they_are_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let child = Child::spawn(launch(folder.path(), "sleep 600 & sleep 600 & wait")).await.unwrap();
        let pid = child.pid();
        let mut children = Vec::new();
        for _ in 0..2_000 {
            children = family::stop(pid).unwrap();
            if children.len() == 2 {
                break;
            }
            family::resume(pid).unwrap();
            sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(children.len(), 2);
        child.kill().await.unwrap();
        assert!(children.into_iter().chain([pid]).all(|pid| !family::is_alive(pid)));
        assert!(folder.path().exists(), "the folder is needed for a restart");
    }

    #[tokio::test]
    async fn a_start_that_is_given_up_leaves_neither_server_nor_folder() {
        for _ in 0..5 {
            let folder = tempfile::tempdir().unwrap().keep();
            let pid = folder.with_extension("pid");
            let script = format!("echo $$ >{}; exec sleep 600", pid.display());
            // The first poll starts the supervisor. Nobody reads what it says.
            assert!(Child::spawn(launch(&folder, &script)).now_or_never().is_none());
            let gone = async {
                while folder.exists() {
                    sleep(Duration::from_millis(2)).await;
                }
            };
            timeout(LIMIT, gone).await.unwrap();
            // A server that was killed early has not written its id.
            let server = fs::read_to_string(&pid).ok().and_then(|text| Pid::from_raw(text.trim().parse().ok()?));
            let _ = fs::remove_file(&pid);
            assert!(server.is_none_or(|server| !family::is_alive(server)));
        }
    }

    #[tokio::test]
    async fn a_dropped_child_is_gone_with_its_supervisor() {
        let folder = tempfile::tempdir().unwrap();
        let child = Child::spawn(launch(folder.path(), "exec sleep 600")).await.unwrap();
        let (pid, supervisor) = (child.pid(), child.supervisor.id().unwrap());
        let supervisor = Pid::from_raw(supervisor.try_into().unwrap()).unwrap();
        assert!(family::is_alive(pid) && family::is_alive(supervisor));
        drop(child);
        assert!(!family::is_alive(pid) && !family::is_alive(supervisor));
    }
}
