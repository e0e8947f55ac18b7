use std::{path::Path, time::Duration};

use stockade_testbed::{ChildProcess, RedisServer};
use tokio::{process::Command, time::timeout};

/// The limit for one answer. An answer may stand for a whole series of critical sections.
const LIMIT: Duration = Duration::from_secs(120);

/// A library that other programs lock with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    RedisPy,
    Pottery,
    Redlock4,
    Redlock5,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::RedisPy, Self::Pottery, Self::Redlock4, Self::Redlock5];

    fn command(self) -> Command {
        let (variable, program, kind) = match self {
            Self::RedisPy => ("INTEROP_PYTHON", "peer.py", "redis-py"),
            Self::Pottery => ("INTEROP_PYTHON", "peer.py", "pottery"),
            Self::Redlock4 => ("INTEROP_NODE", "peer.cjs", "redlock-4"),
            Self::Redlock5 => ("INTEROP_NODE", "peer.cjs", "redlock-5"),
        };
        let mut command = Command::new(named_by(variable));
        if variable == "INTEROP_NODE" {
            command.env("NODE_PATH", named_by("INTEROP_NODE_MODULES"));
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/peers");
        command.arg(folder.join(program)).arg(kind);
        command
    }
}

fn named_by(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `make interop`, which installs the other programs and says where they are")
    })
}

/// Another program with a lock of its own, on these servers.
#[derive(Debug)]
pub(crate) struct Peer {
    kind: Kind,
    process: ChildProcess,
}

impl Peer {
    pub(crate) fn start(kind: Kind, servers: &[RedisServer]) -> Self {
        let mut command = kind.command();
        command.args(servers.iter().map(RedisServer::url));
        Self { kind, process: ChildProcess::start(command).unwrap() }
    }

    /// Tries once to lock `name`. Returns whether that succeeded.
    pub(crate) async fn acquires(&mut self, name: &str, lease: Duration) -> bool {
        self.ask(&format!("acquire {name} {}", lease.as_secs_f64())).await
    }

    /// Releases the lock. Returns `false` if the peer no longer held it.
    pub(crate) async fn releases(&mut self) -> bool {
        self.ask("release").await
    }

    /// Adds one to a number in each of `rounds` critical sections.
    pub(crate) async fn counts(&mut self, name: &str, lease: Duration, counter: &str, rounds: u32) {
        assert!(self.ask(&format!("count {name} {} {counter} {rounds}", lease.as_secs_f64())).await);
    }

    async fn ask(&mut self, line: &str) -> bool {
        self.process.tell(line).await.unwrap();
        let answer = timeout(LIMIT, self.process.next_line()).await;
        let answer = answer.unwrap_or_else(|_| panic!("{:?} did not answer to {line:?}", self.kind)).unwrap();
        match answer.as_deref() {
            Some("yes") => true,
            Some("no") => false,
            other => panic!("{:?} answered {other:?} to {line:?}; what it wrote to stderr stands above", self.kind),
        }
    }
}
