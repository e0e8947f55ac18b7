use std::io::{self, BufRead};

use tokio::task::spawn_blocking;

use super::Failure;

/// What a process of buyers says when its connections stand.
pub(super) const READY: &str = "ready";
/// What it is told to begin, and to go on after it was stopped.
pub(super) const GO: &str = "go";
/// What it says in the middle of a sale, to be stopped there.
pub(super) const STOP_ME: &str = "stop me";
/// What stands before its report.
pub(super) const REPORT: &str = "report ";

/// What the process is told next, without white space around it.
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
