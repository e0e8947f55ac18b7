use std::{env, process::Stdio, time::Duration};

use stockade_testbed::Watchdog;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::contender::Failure;

const START: Duration = Duration::from_secs(30);

/// This program again, in another part. It dies with the value, and with this process.
pub(crate) struct Part {
    _child: Child,
    _watchdog: Watchdog,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Part {
    /// `part` is the first argument; nothing of this process' environment is passed on but `settings`.
    pub(crate) fn start(part: &str, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(part).env_clear().envs(settings.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let watchdog = Watchdog::over(child.id().ok_or("the child has ended")?)?;
        let stdin = child.stdin.take().ok_or("the child has no input")?;
        let stdout = BufReader::new(child.stdout.take().ok_or("the child has no output")?).lines();
        Ok(Self { _child: child, _watchdog: watchdog, stdin, stdout })
    }

    /// One line for the child to read.
    pub(crate) async fn tell(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.stdin.write_all(format!("{text}\n").as_bytes()).await?)
    }

    /// What stands behind `words` in the first line that begins with them.
    pub(crate) async fn says(&mut self, words: &str) -> Result<String, Failure> {
        timeout(START, async {
            while let Some(line) = self.stdout.next_line().await? {
                if let Some(rest) = line.strip_prefix(words) {
                    return Ok(rest.to_owned());
                }
            }
            Err(format!("a child ended before it said `{words}`").into())
        })
        .await?
    }
}
