use std::{sync::Mutex, time::Duration};

use rustix::process::{Signal, getpid, kill_process};
use tokio::time::Instant;

use crate::console;

/// How long a process runs before it is stopped, and again after it went on.
const RUNS: Duration = Duration::from_millis(500);

/// What a process says before it stops; who reads it lets it go on after a while.
pub(super) const STOPPING: &str = "stopping";

/// Stops this process in the middle of a sale, as a virtual machine that is moved or a long page-in would.
#[derive(Debug)]
pub(super) struct Stops {
    next: Mutex<Instant>,
}

impl Stops {
    pub(super) fn begin() -> Self {
        Self { next: Mutex::new(Instant::now() + RUNS) }
    }

    /// Returns when the process was let go on.
    pub(super) fn stop_if_due(&self) {
        let Ok(mut next) = self.next.lock() else { return };
        if Instant::now() < *next {
            return;
        }
        console::out(STOPPING);
        if kill_process(getpid(), Signal::STOP).is_ok() {
            *next = Instant::now() + RUNS;
        }
    }
}
