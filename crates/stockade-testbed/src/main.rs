//! `testbed`: private servers for any command.

use std::{
    ffi::OsString,
    io::IsTerminal,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
};

use clap::{Parser, Subcommand};
use rustix::process::{Pid, Signal, kill_process};
use stockade_testbed::{PostgresServer, RedisServer, Watchdog};
use tokio::{
    process::{Child, Command as Process},
    signal::unix::{SignalKind, signal},
};

/// Private Redis and PostgreSQL servers on free ports of 127.0.0.1, gone when the command is.
#[derive(Debug, Parser)]
#[command(name = "testbed", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command with `REDIS_URL` and `DATABASE_URL` set, and end as it ends.
    ///
    /// PostgreSQL runs with fsync off: good for tests, not for figures of commit latency.
    Exec(Exec),
}

#[derive(Debug, clap::Args)]
struct Exec {
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    argv: Vec<OsString>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Exec(exec) = Cli::parse().command;
    match Box::pin(exec.run()).await {
        Ok(code) => code,
        Err(error) => {
            report(error.as_ref());
            ExitCode::from(125)
        }
    }
}

impl Exec {
    async fn run(self) -> Result<ExitCode, Box<dyn std::error::Error>> {
        // Before the servers start: from then on a signal must lead to the ordinary end, which stops them.
        let mut forward = Forward::install()?;
        let start = async { tokio::try_join!(RedisServer::start(), PostgresServer::start()) };
        let (redis, postgres) = tokio::select! {
            servers = start => servers?,
            signal = forward.next() => return Ok(ended_by(signal)),
        };

        let [program, args @ ..] = self.argv.as_slice() else { return Err("no command given".into()) };
        let mut process = Process::new(program);
        process.args(args).env("REDIS_URL", redis.url()).env("DATABASE_URL", postgres.url()).kill_on_drop(true);
        let mut child = match process.spawn() {
            Ok(child) => child,
            Err(error) => {
                report(&error);
                return Ok(ExitCode::from(127));
            }
        };
        let watchdog = child.id().map(Watchdog::over).transpose()?;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                signal = forward.next() => pass_on(&child, signal),
            }
        };
        drop(watchdog);
        redis.kill().await?;
        postgres.kill().await?;
        Ok(code_of(status))
    }
}

/// Sends the command a signal that this program got. Ctrl-C in a terminal has reached the whole foreground group
/// already.
fn pass_on(command: &Child, signal: Signal) {
    let pid = command.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid
        && !(signal == Signal::INT && std::io::stdin().is_terminal())
    {
        let _ = kill_process(pid, signal);
    }
}

/// The signals that are passed on to the command.
struct Forward {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
}

impl Forward {
    fn install() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
            _ = self.quit.recv() => Signal::QUIT,
        }
    }
}

/// The exit code that a shell gives: 128 and the signal's number for a command that was killed.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn ended_by(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal.as_raw()).unwrap_or(1))
}

#[expect(clippy::print_stderr, reason = "a command line program tells its user why it failed")]
fn report(error: &dyn std::error::Error) {
    eprint!("testbed: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprint!(": {error}");
        cause = error.source();
    }
    eprintln!();
}
