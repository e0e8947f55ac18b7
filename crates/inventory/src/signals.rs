//! How a command is asked to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The status that a shell reports for a command that Ctrl-C ended.
#[cfg(feature = "demo")]
pub(crate) const INTERRUPTED: u8 = 130;

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on neither signal ends the process by itself.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
