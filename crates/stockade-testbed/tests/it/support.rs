//! Waiting for conditions, and looking at processes.

use std::{fs, time::Duration};

use tokio::time::{Instant, sleep};

/// Waits until the condition holds; only a failing test reaches the limit.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition().await {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// True while the process exists and is not a dead one that nobody has waited for.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('Z'))
}

/// The processes whose command line contains the text.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_alive(*pid) && String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
    })
    .collect()
}

pub(crate) fn pid_of(pid: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(pid.cast_signed()).unwrap()
}
