//! The errors of private servers.

use std::{io, time::Duration};

use crate::Leftovers;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A server could not be started, broken or repaired as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is not installed where it is looked for.
    #[error("`{program}` was not found: run `make setup`, or name it with {variable} (looked in {looked})")]
    NotFound {
        /// The program.
        program: &'static str,
        /// The environment variable that names it.
        variable: &'static str,
        /// The places that were searched.
        looked: String,
    },
    /// The child ended before it was ready.
    #[error("`{command}` ended ({status}) before it was ready; the end of its log:\n{log}")]
    Died {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The end of its output.
        log: String,
    },
    /// The child runs, but did not become ready in time.
    #[error("`{command}` was not ready within {limit:?}; the end of its log:\n{log}")]
    NotReady {
        /// The command line.
        command: String,
        /// How long it was given.
        limit: Duration,
        /// The end of its output.
        log: String,
    },
    /// Processes of the child are still there although they were killed.
    #[error("processes {pids:?} of `{command}` did not end within {limit:?} of SIGKILL")]
    StillRunning {
        /// The command line.
        command: String,
        /// The processes that are left.
        pids: Vec<i32>,
        /// How long they were given.
        limit: Duration,
    },
    /// The server was killed and not restarted.
    #[error("{0} is not running: it was killed; call `restart` first")]
    NotRunning(&'static str),
    /// The server did not answer a command in time.
    #[error("{server} did not answer within {limit:?}")]
    NoAnswer {
        /// The server.
        server: &'static str,
        /// How long it was given.
        limit: Duration,
    },
    /// Several servers did not reach a state in time.
    #[error("not within {limit:?}: {what}")]
    NotReached {
        /// The state that was waited for.
        what: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The clock of a server can't be made movable without a C compiler.
    #[error(
        "`{compiler}` can't compile the movable clock of a server: install a C compiler or name it with CC ({why})"
    )]
    NoCompiler {
        /// The compiler that was tried.
        compiler: String,
        /// The error of the compiler or of the system.
        why: String,
    },
    /// The server has the machine's clock.
    #[error("the server has no clock of its own: start it with `RedisBuilder::own_clock`")]
    NoClock,
    /// Clients have left something behind.
    #[error("left behind after {limit:?}: {left}")]
    LeftBehind {
        /// The things that are left.
        left: Box<Leftovers>,
        /// How long they were given.
        limit: Duration,
    },
    /// The server answered with an error.
    #[error("{server} refused: {text}")]
    Refused {
        /// The server.
        server: &'static str,
        /// The error text of the server.
        text: String,
    },
    /// PostgreSQL refuses to run as root, and there is no other user to run it as.
    #[error("PostgreSQL refuses to run as root and neither `postgres` nor `nobody` is a user here: create one of them")]
    NoAccount,
    /// The operating system refused something.
    #[error("could not {doing}")]
    Io {
        /// The action that failed.
        doing: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: names the action that failed.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// True when the server ended because another process has its port.
    pub(crate) fn is_port_taken(&self) -> bool {
        matches!(self, Self::Died { log, .. } if log.contains("ddress already in use"))
    }
}
