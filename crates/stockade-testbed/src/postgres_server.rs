//! A private PostgreSQL.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{
    Error, Result,
    account::Account,
    child::{Child, Launch},
    pg_template,
    port::{self, Port},
    program,
    slot::Slot,
};

/// Durability is off on purpose: see [`PostgresServer`]. Shared memory in files of the cluster goes with its folder; by
/// default it is in files of the machine, a megabyte for each server, which outlive one that is killed.
const SETTINGS: [(&str, &str); 9] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("shared_preload_libraries", "pg_stat_statements"),
    ("max_connections", "200"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("max_wal_size", "1GB"),
    ("logging_collector", "off"),
    ("dynamic_shared_memory_type", "mmap"),
];

/// Settings of a private PostgreSQL.
#[derive(Debug, Clone, Default)]
pub struct PostgresBuilder {
    settings: Vec<(String, String)>,
}

impl PostgresBuilder {
    /// Sets a server parameter, as `-c name=value` does; a later one of the same name wins.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Starts the server and waits until it accepts logins.
    ///
    /// # Errors
    ///
    /// When PostgreSQL is not installed, ends during the start or is not ready within 30 s.
    pub async fn start(self) -> Result<PostgresServer> {
        PostgresServer::launch(self.settings).await
    }
}

/// A private PostgreSQL cluster on a free port of 127.0.0.1, with a random password and `pg_stat_statements` loaded
/// (`create extension pg_stat_statements` shows it), killed when dropped.
///
/// It runs with `fsync=off`. Commits survive every end of the server or of this process, because the operating system
/// keeps the written data, but they do not survive a crash of the machine. Commit latencies measured on it are
/// therefore lower than on a durable server.
pub struct PostgresServer {
    pub(crate) process: Slot,
    pub(crate) port: Port,
    bin: PathBuf,
    settings: Vec<(String, String)>,
    password: String,
    account: Option<Account>,
    folder: TempDir,
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresServer").field("addr", &self.addr()).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

impl PostgresServer {
    /// Starts a server with the defaults.
    ///
    /// # Errors
    ///
    /// As [`PostgresBuilder::start`].
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// A builder, for further server parameters.
    #[must_use]
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    async fn launch(settings: Vec<(String, String)>) -> Result<Self> {
        let bin = program::postgres_folder()?;
        let account = Account::unprivileged()?;
        let (folder, password) = pg_template::instantiate(&bin, account).await?;
        let process = Slot::empty("PostgreSQL");
        let mut server = Self { process, port: Port::default(), bin, settings, password, account, folder };
        for attempt in 1.. {
            server.port = Port::take(port::Range::default())?;
            match server.restart().await {
                Err(error) if error.is_port_taken() && attempt < port::ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        Ok(server)
    }

    async fn spawn(&self) -> Result<Child> {
        let data = self.folder.path().join("data");
        let mut args: Vec<OsString> =
            vec!["-D".into(), data.clone().into(), "-p".into(), self.port().to_string().into()];
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in SETTINGS.into_iter().chain(own) {
            args.push("-c".into());
            args.push(format!("{name}={value}").into());
        }
        let program = self.bin.join("postgres");
        let folder = self.folder.path();
        let launch = Launch { program: &program, args, environment: Vec::new(), folder, account: self.account };
        let mut child = Child::spawn(launch).await?;
        let status = data.join("postmaster.pid");
        child
            .until_ready(async |pid| {
                let status = tokio::fs::read_to_string(&status).await.unwrap_or_default();
                let own = status.lines().next() == Some(pid.as_raw_nonzero().to_string().as_str());
                let ready = status.lines().last().is_some_and(|line| ["ready", "standby"].contains(&line.trim_end()));
                own && ready
            })
            .await?;
        Ok(child)
    }

    /// The URL of the database `postgres`, password included.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{}:{}@{}/postgres", pg_template::USER, self.password, self.addr())
    }

    /// The folder of PostgreSQL's programs, `psql` among them where the client is installed.
    #[must_use]
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// Kills the server if it runs and starts it again on the same port and data: it recovers as after a crash.
    ///
    /// # Errors
    ///
    /// When it can't be killed or started.
    pub async fn restart(&self) -> Result<()> {
        self.process.restart(self.spawn()).await
    }

    /// [`PostgresServer::restart`] as a standby, which takes no writes. It follows no primary.
    ///
    /// # Errors
    ///
    /// Those of a restart, and when its folder can't be written.
    pub async fn restart_as_standby(&self) -> Result<()> {
        self.kill().await?;
        tokio::fs::write(self.folder.path().join("data/standby.signal"), "")
            .await
            .map_err(Error::io("mark its data as those of a standby"))?;
        self.restart().await
    }
}
