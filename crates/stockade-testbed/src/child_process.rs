//! A child that this process talks to.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{Error, Result, Watchdog, until::until};

/// A process that is talked to line by line: often the running program again, in another role.
///
/// The process ends when the value is dropped, and with this process however that ends.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{env, time::Duration};
///
/// use stockade_testbed::ChildProcess;
/// use tokio::process::Command;
///
/// let mut command = Command::new(env::current_exe()?);
/// command.arg("buy");
/// let mut buyer = ChildProcess::start(command)?;
/// buyer.says("ready", Duration::from_secs(30)).await?;
/// buyer.pause().await?; // as if its machine stood still
/// buyer.resume()?;
/// buyer.tell("go").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ChildProcess {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _watchdog: Watchdog,
}

impl ChildProcess {
    /// Starts the process. Its standard input and output lead here, its standard error where the command has it.
    ///
    /// # Errors
    ///
    /// When the system can't start the program, or `/bin/sh` to watch over it.
    pub fn start(mut command: Command) -> Result<Self> {
        let doing = || Error::io("start a child process");
        let no_pipe = || io::Error::other("no pipe");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().map_err(doing())?;
        let id = process.id().ok_or_else(|| io::Error::other("it ended at once")).map_err(doing())?;
        let watchdog = Watchdog::over(id)?;
        let input = process.stdin.take().ok_or_else(no_pipe).map_err(doing())?;
        let output = process.stdout.take().ok_or_else(no_pipe).map_err(doing())?;
        Ok(Self { process, input, output: BufReader::new(output).lines(), _watchdog: watchdog })
    }

    /// Writes a line for the process to read.
    ///
    /// # Errors
    ///
    /// When it has ended or closed its input.
    pub async fn tell(&mut self, text: &str) -> Result<()> {
        self.input.write_all(format!("{text}\n").as_bytes()).await.map_err(Error::io("tell a child process"))
    }

    /// The next line of the process; `None` when it has said everything. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When the line is not UTF-8.
    pub async fn next_line(&mut self) -> Result<Option<String>> {
        self.output.next_line().await.map_err(Error::io("hear a child process"))
    }

    /// Waits for the first line from here on that contains `words`. Returns the text behind them.
    ///
    /// # Errors
    ///
    /// When there is no such line within `limit`, or before the process ends.
    pub async fn says(&mut self, words: &str, limit: Duration) -> Result<String> {
        let said = async {
            while let Some(line) = self.next_line().await? {
                if let Some((_, rest)) = line.split_once(words) {
                    return Ok(rest.to_owned());
                }
            }
            let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
            Err(ended).map_err(Error::io(format!("hear `{}` from a child process", words.trim())))
        };
        let late = |_| Error::NotReached { what: format!("a child process says `{}`", words.trim()), limit };
        timeout(limit, said).await.map_err(late)?
    }

    /// Stops the process (SIGSTOP), and returns when it stands still. On a busy machine its threads go on for a moment
    /// after the signal.
    ///
    /// # Errors
    ///
    /// When it has ended, or does not stand still within a minute.
    pub async fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let pid = self.pid()?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        until("a child process stands still", async || matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)))).await
    }

    /// Lets the process go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks the process to end as Ctrl-C does (SIGINT).
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn interrupt(&self) -> Result<()> {
        self.signal(Signal::INT)
    }

    /// Kills the process (SIGKILL), and returns when it is gone.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await.map_err(Error::io("kill a child process"))
    }

    /// Returns when the process has ended.
    ///
    /// # Errors
    ///
    /// When the system can't tell.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        self.process.wait().await.map_err(Error::io("wait for a child process"))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid()?, signal).map_err(|errno| Error::io("send a signal to a child process")(errno.into()))
    }

    fn pid(&self) -> Result<Pid> {
        let pid = self.process.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        pid.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
            .map_err(Error::io("find a child process: it has ended"))
    }
}
