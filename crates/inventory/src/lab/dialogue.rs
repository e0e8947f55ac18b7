use std::io::{self, BufRead};

use tokio::task::spawn_blocking;

use super::Failure;

/// The line of a process of buyers whose connections stand.
pub(super) const READY: &str = "ready";
/// The line that tells the process to begin, and to go on after it was stopped.
pub(super) const GO: &str = "go";
/// The line with which the process asks to be stopped, in the middle of a sale.
pub(super) const STOP_ME: &str = "stop me";
/// The words before the report of the process.
pub(super) const REPORT: &str = "report ";

/// The next line that the process is told, without white space around it.
pub(super) async fn told() -> Result<String, Failure> {
    let read = spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line.trim().to_owned())
    });
    Ok(read.await??)
}

/// Returns when the process is told to go on.
pub(super) async fn told_to_go() -> Result<(), Failure> {
    match told().await?.as_str() {
        GO => Ok(()),
        other => Err(format!("expected `{GO}`, was told `{other}`").into()),
    }
}
