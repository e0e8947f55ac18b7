use std::{env, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use stockade_testbed::Watchdog;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};

use super::{
    Failure,
    dialogue::{GO, READY, REPORT, STOP_ME},
    worker::{Report, Settings},
};

/// For how many leases a process is stopped: one to lose the lock, one more should the next in the queue be in the same
/// process, and one in which others sell.
const STOPPED_FOR: u32 = 3;

/// A process of buyers. It dies with the value, and with this process.
pub(super) struct Part {
    child: Child,
    _watchdog: Watchdog,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    stopped_for: Duration,
    limit: Duration,
}

impl Part {
    /// Returns when its connections stand.
    pub(super) async fn start(settings: &Settings) -> Result<Self, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("lab-worker").env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let watchdog = Watchdog::over(child.id().ok_or("a process of buyers ended at once")?)?;
        let stdin = child.stdin.take().ok_or("a process of buyers has no input")?;
        let stdout = BufReader::new(child.stdout.take().ok_or("a process of buyers has no output")?).lines();
        let stopped_for = settings.world.lease * STOPPED_FOR;
        let limit = settings.limit + Duration::from_secs(30);
        let mut part = Self { child, _watchdog: watchdog, stdin, stdout, stopped_for, limit };
        part.tell(&serde_json::to_string(settings)?).await?;
        part.says(READY).await?;
        Ok(part)
    }

    /// Lets the buyers buy, and returns what they saw.
    pub(super) async fn sell(mut self) -> Result<Report, Failure> {
        self.tell(GO).await?;
        let report = self.says(REPORT).await?;
        self.child.wait().await?;
        Ok(serde_json::from_str(&report)?)
    }

    async fn tell(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.stdin.write_all(format!("{text}\n").as_bytes()).await?)
    }

    /// What stands behind `words` in the first line that begins with them. A process that asks for it is stopped.
    async fn says(&mut self, words: &str) -> Result<String, Failure> {
        let limit = self.limit;
        let said = async {
            while let Some(line) = self.stdout.next_line().await? {
                if let Some(rest) = line.strip_prefix(words) {
                    return Ok(rest.to_owned());
                }
                if line == STOP_ME {
                    self.stop().await?;
                }
            }
            Err(format!("a process of buyers ended before it said `{}`", words.trim()).into())
        };
        timeout(limit, said).await?
    }

    /// Stops the process beyond its lease, then lets it go on.
    async fn stop(&mut self) -> Result<(), Failure> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let pid = pid.ok_or("a process of buyers has ended")?;
        kill_process(pid, Signal::STOP)?;
        sleep(self.stopped_for).await;
        kill_process(pid, Signal::CONT)?;
        self.tell(GO).await
    }
}
