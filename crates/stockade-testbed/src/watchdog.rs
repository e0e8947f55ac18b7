//! Ends a process that was started without a supervisor when this process is gone.

use std::process::Stdio;

use tokio::process::{ChildStdin, Command};

use crate::{Error, Result};

/// Kills a process when this one ends without having dropped the watchdog, as after `kill -9`.
///
/// For children that need the terminal: private servers have a supervisor, which leaves no gap between start and watch.
#[derive(Debug)]
pub struct Watchdog {
    /// Held, never written: its end is the signal.
    _owner: ChildStdin,
    shell: tokio::process::Child,
}

impl Watchdog {
    /// Watches over the process with this id. Drop it before its parent waits for that process, or soon after.
    ///
    /// # Errors
    ///
    /// When `/bin/sh` can't be started.
    pub fn over(pid: u32) -> Result<Self> {
        const WATCH: &str = "while read -r _; do :; done; kill -KILL \"$1\"";
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WATCH, "testbed"]).arg(pid.to_string()).process_group(0).kill_on_drop(true);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let doing = || Error::io("start a watchdog");
        let mut shell = shell.spawn().map_err(doing())?;
        let owner = shell.stdin.take().ok_or_else(|| std::io::Error::other("no pipe")).map_err(doing())?;
        Ok(Self { _owner: owner, shell })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Before the pipe closes, which would set it off.
        let _ = self.shell.start_kill();
    }
}
