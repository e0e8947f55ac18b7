//! A private Redis.

use std::{fmt, fs, path::PathBuf, time::Duration};

use tempfile::TempDir;

use crate::{
    Error, RedisBuilder, Result,
    child::{Child, Launch},
    clock::Clock,
    folder,
    port::{self, Port},
    program,
    redis_builder::SENTINEL_FILE,
    resp,
    slot::Slot,
    tls,
    until::{self, until},
};

/// A private `redis-server` on a free port of 127.0.0.1: no persistence, no password unless asked for, killed when
/// dropped.
pub struct RedisServer {
    pub(crate) process: Slot,
    pub(crate) port: Port,
    program: PathBuf,
    settings: RedisBuilder,
    clock: Option<Clock>,
    folder: TempDir,
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").field("addr", &self.addr()).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

/// Servers are told apart by their address.
impl PartialEq for RedisServer {
    fn eq(&self, other: &Self) -> bool {
        self.port() == other.port()
    }
}

impl Eq for RedisServer {}

impl RedisServer {
    pub(crate) async fn launch(settings: RedisBuilder) -> Result<Self> {
        let program = program::redis_server()?;
        let folder = folder::private(None)?;
        let clock = if settings.has_own_clock { Some(Clock::build(folder.path()).await?) } else { None };
        let mut server =
            Self { process: Slot::empty("Redis"), port: Port::default(), program, settings, clock, folder };
        server.write_files()?;
        for attempt in 1.. {
            server.port = Port::take(server.settings.ports)?;
            server.write_sentinel_file()?;
            match server.restart().await {
                Err(error) if error.is_port_taken() && attempt < port::ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        if server.settings.is_replica {
            until("the replica is synchronised", async || server.is_synchronised().await).await?;
        }
        Ok(server)
    }

    /// Writes the file that a sentinel wants. After a restart the sentinel continues with the state that it wrote
    /// there.
    fn write_sentinel_file(&self) -> Result<()> {
        let Some(text) = &self.settings.sentinel else { return Ok(()) };
        fs::write(self.folder.path().join(SENTINEL_FILE), text).map_err(Error::io("write a sentinel's configuration"))
    }

    fn write_files(&self) -> Result<()> {
        for (name, text) in self.settings.tls.iter().flat_map(|tls| &tls.files) {
            fs::write(self.folder.path().join(name), text).map_err(Error::io("write a server's certificates"))?;
        }
        Ok(())
    }

    async fn spawn(&self) -> Result<Child> {
        let args = self.settings.command_line(self.port(), self.folder.path());
        let environment = self.clock.as_ref().map(Clock::environment).unwrap_or_default();
        let launch = Launch { program: &self.program, args, environment, folder: self.folder.path(), account: None };
        let mut child = Child::spawn(launch).await?;
        // The answer must be this server's: on a port lost in a race, another Redis may answer.
        child
            .until_ready(async |pid| {
                let own = format!("process_id:{}\r", pid.as_raw_nonzero());
                self.command(&["INFO", "server"]).await.is_ok_and(|info| info.contains(&own))
                    && self.command(&["PING"]).await.is_ok_and(|pong| pong == "PONG")
            })
            .await?;
        Ok(child)
    }

    /// True for a primary, and for a replica that has all data of its primary.
    pub(crate) async fn is_synchronised(&self) -> bool {
        let info = self.command(&["INFO", "replication"]).await.unwrap_or_default();
        info.contains("role:master") || info.contains("master_link_status:up")
    }

    pub(crate) async fn is_primary(&self) -> bool {
        self.ask(&["ROLE"]).await.is_ok_and(|role| role.lines().next() == Some("master"))
    }

    /// True for a replica of that primary that has all data of the primary.
    pub(crate) async fn follows(&self, primary: &Self) -> bool {
        let expected = format!("slave\n127.0.0.1\n{}\nconnected\n", primary.port());
        self.ask(&["ROLE"]).await.is_ok_and(|role| role.starts_with(&expected))
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.settings.password.as_deref()
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.settings.tls.is_some()
    }

    /// `redis://127.0.0.1:PORT`, with `:PASSWORD@` where there is one, `rediss` where it speaks TLS.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme(), self.credentials(), self.addr())
    }

    fn scheme(&self) -> &'static str {
        if self.has_tls() { "rediss" } else { "redis" }
    }

    /// Scheme and credentials for URLs of several servers that are set up alike.
    pub(crate) fn entrance(servers: &[Self]) -> (&'static str, String) {
        servers.first().map_or(("redis", String::new()), |server| (server.scheme(), server.credentials()))
    }

    fn credentials(&self) -> String {
        self.password().map(|password| format!(":{password}@")).unwrap_or_default()
    }

    /// The private folder of the server. It is gone once the owner of the server is gone, however the owner ended.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Kills the server if it runs and starts it again, empty, on the same port.
    ///
    /// # Errors
    ///
    /// When it can't be killed or started.
    pub async fn restart(&self) -> Result<()> {
        self.process.restart(self.spawn()).await
    }

    /// Lets the server's wall clock jump ahead. Steps add up, and outlast a restart.
    ///
    /// # Errors
    ///
    /// When the server was started without [`RedisBuilder::own_clock`].
    pub fn step_clock_forwards(&self, by: Duration) -> Result<()> {
        self.clock.as_ref().ok_or(Error::NoClock)?.step(by, true)
    }

    /// Sets the server's wall clock back. Steps add up, and outlast a restart.
    ///
    /// # Errors
    ///
    /// When the server was started without [`RedisBuilder::own_clock`].
    pub fn step_clock_backwards(&self, by: Duration) -> Result<()> {
        self.clock.as_ref().ok_or(Error::NoClock)?.step(by, false)
    }

    /// Sends one command on a connection of its own, as the user `default`, with the server's password and TLS. An
    /// array is returned as one line per element, a null as an empty text.
    ///
    /// # Errors
    ///
    /// When the server refuses the command, can't be reached or does not answer within 5 s.
    pub async fn command(&self, words: &[&str]) -> Result<String> {
        self.command_within(resp::LIMIT, words).await
    }

    /// Like [`Self::command`], with 1 s for the answer: for servers that may be frozen.
    pub(crate) async fn ask(&self, words: &[&str]) -> Result<String> {
        self.command_within(until::ASK, words).await
    }

    /// Like [`Self::command`], with another limit: for scripts that take their time.
    ///
    /// # Errors
    ///
    /// When the server refuses the command, can't be reached or does not answer within the limit.
    pub async fn command_within(&self, limit: Duration, words: &[&str]) -> Result<String> {
        let socket = self.has_tls().then(|| tls::socket(self.folder.path()));
        let place = socket.as_deref().map_or(resp::Place::Tcp(self.addr()), resp::Place::Socket);
        resp::command(place, self.password(), limit, words).await
    }
}
