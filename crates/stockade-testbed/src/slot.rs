use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::Pid;
use tokio::sync::Mutex;

use crate::{
    Error, Result,
    child::{Child, family},
};

/// The place of a server's process, of which one runs at a time. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Slot {
    server: &'static str,
    child: Mutex<Option<Child>>,
    /// 0 while the server is killed.
    pid: AtomicI32,
}

impl Slot {
    /// A slot without a process so far. `server` is its name in errors.
    pub(crate) fn empty(server: &'static str) -> Self {
        Self { server, child: Mutex::new(None), pid: AtomicI32::new(0) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire).unsigned_abs()
    }

    fn running(&self) -> Result<Pid> {
        Pid::from_raw(self.pid.load(Ordering::Acquire)).ok_or(Error::NotRunning(self.server))
    }

    pub(crate) fn pause(&self) -> Result<()> {
        family::stop(self.running()?)
            .map(drop)
            .map_err(|error| Error::io(format!("stop {}", self.server))(error.into()))
    }

    pub(crate) fn resume(&self) -> Result<()> {
        family::resume(self.running()?).map_err(|error| Error::io(format!("resume {}", self.server))(error.into()))
    }

    pub(crate) async fn kill(&self) -> Result<()> {
        let mut child = self.child.lock().await;
        self.pid.store(0, Ordering::Release);
        match child.take() {
            Some(child) => child.kill().await,
            None => Ok(()),
        }
    }

    /// Kills the process if there is one, then keeps the one that `spawn` starts.
    pub(crate) async fn restart(&self, spawn: impl Future<Output = Result<Child>>) -> Result<()> {
        self.kill().await?;
        let mut child = self.child.lock().await;
        let started = spawn.await?;
        self.pid.store(started.pid().as_raw_nonzero().get(), Ordering::Release);
        *child = Some(started);
        Ok(())
    }
}
