use std::{ffi::OsString, fmt, path::Path};

#[cfg(feature = "tls")]
use crate::Certificates;
use crate::{port::Range, tls::Tls};

/// Settings of a private Redis.
#[derive(Clone, Default)]
pub struct RedisBuilder {
    pub(crate) args: Vec<OsString>,
    pub(crate) password: Option<String>,
    /// Waits for the first synchronisation at the start.
    pub(crate) is_replica: bool,
    /// The text of a configuration file, for a sentinel, which keeps its state in that file.
    pub(crate) sentinel: Option<String>,
    pub(crate) ports: Range,
    pub(crate) tls: Option<Tls>,
    pub(crate) has_own_clock: bool,
}

impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBuilder").field("args", &self.args).finish_non_exhaustive()
    }
}

impl RedisBuilder {
    /// Adds an argument to the command line of `redis-server`; a later setting of the same name wins.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments to the command line of `redis-server`; a later setting of the same name wins.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The password of the user `default`, which [`RedisServer::url`](crate::RedisServer::url) contains and
    /// [`RedisServer::command`](crate::RedisServer::command) uses. The server shows the same one to a primary that it
    /// follows.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Makes the server a node of a cluster. It serves no slots until it is given some.
    #[must_use]
    pub fn cluster_node(mut self) -> Self {
        self.ports = Range::WithBus;
        self.args(["--cluster-enabled", "yes"])
    }

    /// Gives the server a wall clock of its own, which
    /// [`RedisServer::step_clock_forwards`](crate::RedisServer::step_clock_forwards) and
    /// [`RedisServer::step_clock_backwards`](crate::RedisServer::step_clock_backwards) move. Linux only; the start
    /// compiles a few lines of C for it, with the compiler named by `CC`, else `cc`.
    #[must_use]
    pub fn own_clock(mut self) -> Self {
        self.has_own_clock = true;
        self
    }

    /// Speaks TLS with these certificates, and nothing else; so must a primary that it follows.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        let files = certificates.files().map(|(name, text)| (name, text.to_owned())).into();
        self.tls = Some(Tls { files, asks_clients: false });
        self
    }

    /// Like [`Self::tls`]; refuses clients without a certificate of the same authority.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn mutual_tls(self, certificates: &Certificates) -> Self {
        let mut settings = self.tls(certificates);
        if let Some(tls) = &mut settings.tls {
            tls.asks_clients = true;
        }
        settings
    }

    /// The command line on a port, in a folder.
    pub(crate) fn command_line(&self, port: u16, folder: &Path) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        if self.sentinel.is_some() {
            args.extend([folder.join(SENTINEL_FILE).into(), "--sentinel".into()]);
        }
        match &self.tls {
            Some(tls) => args.extend(tls.args(port, folder)),
            None => args.extend(["--port".into(), port.to_string().into()]),
        }
        args.extend(["--dir".into(), folder.into()]);
        let fixed = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"];
        args.extend(fixed.into_iter().map(OsString::from));
        // With the usual 5 s a replica may be promoted before its first synchronisation.
        args.extend(["--repl-diskless-sync-delay".into(), "0".into()]);
        if let Some(password) = &self.password {
            args.extend(["--requirepass", password, "--masterauth", password].into_iter().map(OsString::from));
        }
        args.extend_from_slice(&self.args);
        args
    }
}

pub(crate) const SENTINEL_FILE: &str = "sentinel.conf";
