//! `testbed`: private servers for any command.

use std::{
    ffi::OsString,
    io::IsTerminal,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
};

use clap::{Parser, Subcommand};
use rustix::process::{Pid, Signal, kill_process};
use stockade_testbed::{PostgresServer, RedisCluster, RedisServer, SentinelGroup, Watchdog};
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
    /// Run a command with `REDIS_URL` and `DATABASE_URL` set, and end as it ends. Sentinels and a cluster are started
    /// only when named, as `REDIS_SENTINEL_URL` and `REDIS_CLUSTER_URL`.
    ///
    /// PostgreSQL runs with fsync off: good for tests, not for figures of commit latency.
    Exec(Exec),
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Exec {
    /// Start Redis, and nothing else unless named too.
    #[arg(long)]
    redis: bool,
    /// Start PostgreSQL, and nothing else unless named too.
    #[arg(long)]
    postgres: bool,
    /// Start a primary, two replicas and three sentinels, and nothing else unless named too.
    #[arg(long)]
    sentinel: bool,
    /// Start a cluster of three primaries and three replicas, and nothing else unless named too.
    #[arg(long)]
    cluster: bool,
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
        let both = ![self.redis, self.postgres, self.sentinel, self.cluster].contains(&true);
        let start = async {
            tokio::try_join!(
                wanted(both || self.redis, RedisServer::start()),
                wanted(both || self.postgres, PostgresServer::start()),
                wanted(self.sentinel, SentinelGroup::start()),
                wanted(self.cluster, RedisCluster::start()),
            )
        };
        let (redis, postgres, sentinel, cluster) = tokio::select! {
            servers = start => servers?,
            signal = forward.next() => return Ok(ended_by(signal)),
        };

        let [program, args @ ..] = self.argv.as_slice() else { return Err("no command given".into()) };
        let mut process = Process::new(program);
        process.args(args).kill_on_drop(true);
        if let Some(redis) = &redis {
            process.env("REDIS_URL", redis.url());
        }
        if let Some(postgres) = &postgres {
            process.env("DATABASE_URL", postgres.url());
        }
        if let Some(sentinel) = &sentinel {
            process.env("REDIS_SENTINEL_URL", sentinel.url());
        }
        if let Some(cluster) = &cluster {
            process.env("REDIS_CLUSTER_URL", cluster.url());
        }
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
        if let Some(redis) = redis {
            redis.kill().await?;
        }
        if let Some(postgres) = postgres {
            postgres.kill().await?;
        }
        let watched = sentinel.iter().flat_map(|group| group.sentinels().iter().chain(group.servers()));
        for server in watched.chain(cluster.iter().flat_map(RedisCluster::nodes)) {
            server.kill().await?;
        }
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

async fn wanted<T>(
    is_wanted: bool,
    start: impl Future<Output = stockade_testbed::Result<T>>,
) -> stockade_testbed::Result<Option<T>> {
    if is_wanted { start.await.map(Some) } else { Ok(None) }
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
