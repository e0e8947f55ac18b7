use std::time::Duration;

use tokio::{sync::Mutex, time::Instant};

use super::{
    Failure,
    dialogue::{STOP_ME, told_to_go},
};
use crate::console;

/// How long a process runs before its first stop, and between two stops.
const RUNS: Duration = Duration::from_millis(500);

/// Has this process stopped in the middle of a sale, as a virtual machine that is moved or a long page-in would.
///
/// Another process sends the signal, and the sale does not go on before it is told to: a process that stopped itself
/// would run on until the signal has reached all its threads, perhaps past the sale.
#[derive(Debug)]
pub(super) struct Stops {
    next: Mutex<Instant>,
}

impl Stops {
    pub(super) fn begin() -> Self {
        Self { next: Mutex::new(Instant::now() + RUNS) }
    }

    /// Returns at once when the process is not due to be stopped or another sale of it waits here.
    pub(super) async fn stop_if_due(&self) -> Result<(), Failure> {
        let Ok(mut next) = self.next.try_lock() else { return Ok(()) };
        if Instant::now() >= *next {
            console::out(STOP_ME);
            told_to_go().await?;
            *next = Instant::now() + RUNS;
        }
        Ok(())
    }
}
