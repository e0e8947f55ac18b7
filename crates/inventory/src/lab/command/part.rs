use std::{env, time::Duration};

use stockade_testbed::ChildProcess;
use tokio::{
    process::Command,
    time::{sleep, timeout},
};

use super::{
    Failure,
    dialogue::{GO, READY, REPORT, STOP_ME},
    worker::{Report, Settings},
};

/// How long it takes at most to connect, and from the end of a sale to the report.
const MARGIN: Duration = Duration::from_secs(30);

/// For how many leases a process is stopped: one to lose the lock, one more should the next in the queue be in the same
/// process, and one in which others sell.
const STOPPED_FOR: u32 = 3;

/// A process of buyers.
pub(super) struct Part {
    process: ChildProcess,
    stopped_for: Duration,
    limit: Duration,
}

impl Part {
    /// Starts a process, and returns when its connections stand.
    pub(super) async fn start(settings: &Settings) -> Result<Self, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("lab-worker").env_clear();
        let mut process = ChildProcess::start(command)?;
        process.tell(&serde_json::to_string(settings)?).await?;
        process.says(READY, MARGIN).await?;
        Ok(Self { process, stopped_for: settings.world.lease * STOPPED_FOR, limit: settings.limit + MARGIN })
    }

    /// Lets the buyers buy, and returns their results.
    pub(super) async fn sell(mut self) -> Result<Report, Failure> {
        self.process.tell(GO).await?;
        let report = timeout(self.limit, self.report()).await??;
        self.process.wait().await?;
        Ok(report)
    }

    /// The report of the process. Until then it is stopped whenever it asks to be stopped.
    async fn report(&mut self) -> Result<Report, Failure> {
        let mut stopped = 0;
        while let Some(line) = self.process.next_line().await? {
            if let Some(report) = line.strip_prefix(REPORT) {
                return Ok(Report { stopped, ..serde_json::from_str(report)? });
            }
            if line == STOP_ME {
                self.process.pause().await?;
                sleep(self.stopped_for).await;
                self.process.resume()?;
                self.process.tell(GO).await?;
                stopped += 1;
            }
        }
        Err("a process of buyers ended without a report".into())
    }
}
