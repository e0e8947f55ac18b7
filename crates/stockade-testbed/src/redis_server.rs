//! A private Redis.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use tempfile::TempDir;

use crate::{
    Result,
    child::{Child, Launch},
    folder, port, program, resp,
    slot::Slot,
};

/// Settings of a private Redis.
#[derive(Debug, Clone, Default)]
pub struct RedisBuilder {
    args: Vec<OsString>,
}

impl RedisBuilder {
    /// Adds an argument to the command line of `redis-server`; a later setting of the same name wins.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    ///
    /// When `redis-server` is not installed, ends during the start or does not answer within 30 s.
    pub async fn start(self) -> Result<RedisServer> {
        RedisServer::launch(self.args).await
    }
}

/// A private `redis-server` on a free port of 127.0.0.1: no persistence, no password, killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Slot,
    port: u16,
    program: PathBuf,
    args: Vec<OsString>,
    folder: TempDir,
}

impl RedisServer {
    /// Starts a server with the defaults.
    ///
    /// # Errors
    ///
    /// As [`RedisBuilder::start`].
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// For further arguments of `redis-server`.
    #[must_use]
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    async fn launch(args: Vec<OsString>) -> Result<Self> {
        let program = program::redis_server()?;
        let folder = folder::private(None)?;
        let mut server = Self { process: Slot::empty("Redis"), port: 0, program, args, folder };
        for attempt in 1.. {
            server.port = port::free()?;
            match server.restart().await {
                Err(error) if error.is_port_taken() && attempt < port::ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        Ok(server)
    }

    async fn spawn(&self) -> Result<Child> {
        let mut args: Vec<OsString> = ["--port", &self.port.to_string()].into_iter().map(OsString::from).collect();
        let fixed = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"];
        args.extend(fixed.into_iter().map(OsString::from));
        args.push(self.folder.path().into());
        args.extend_from_slice(&self.args);

        let launch = Launch { program: &self.program, args, folder: self.folder.path(), account: None };
        let mut child = Child::spawn(launch).await?;
        let addr = self.addr();
        // The answer must be this server's: on a port lost in a race, another Redis may answer.
        child
            .until_ready(async |pid| {
                let own = format!("process_id:{}\r", pid.as_raw_nonzero());
                resp::command(addr, &["INFO", "server"]).await.is_ok_and(|info| info.contains(&own))
                    && resp::command(addr, &["PING"]).await.is_ok_and(|pong| pong == "PONG")
            })
            .await?;
        Ok(child)
    }

    /// `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Where it listens; the same over restarts.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The TCP port; the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of `redis-server`, 0 while it is killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Freezes the server (SIGSTOP): the system goes on accepting connections for it, and nothing is answered.
    ///
    /// # Errors
    ///
    /// When the server was killed.
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// Lets a frozen server go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// When the server was killed.
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Kills the server (SIGKILL), frozen or not, and waits until it is gone. Does nothing when it is killed already.
    ///
    /// # Errors
    ///
    /// When it is still there after 30 s.
    pub async fn kill(&self) -> Result<()> {
        self.process.kill().await
    }

    /// Kills the server if it runs and starts it again, empty, on the same port.
    ///
    /// # Errors
    ///
    /// When it can't be killed or started.
    pub async fn restart(&self) -> Result<()> {
        self.process.restart(self.spawn()).await
    }

    /// Sends one command on a connection of its own. Arrays come as one line per element, nulls as nothing.
    ///
    /// # Errors
    ///
    /// When the server refuses the command, can't be reached or does not answer within 5 s.
    pub async fn command(&self, words: &[&str]) -> Result<String> {
        resp::command(self.addr(), words).await
    }
}
