//! A Redis that an attack starts in order to harm it.

use std::sync::Arc;

use stockade_testbed::{Error, RedisServer};
use tokio::{runtime::Handle, task::spawn_blocking};

use super::AttackError;

/// A private server. It ends, frozen or not, when the value is dropped, and with the process.
#[derive(Clone, Debug)]
pub(super) struct OwnRedis(Arc<RedisServer>);

/// A frozen server. Dropping the value resumes it, also when the attack is stopped.
pub(super) struct Frozen<'a>(&'a OwnRedis);

impl OwnRedis {
    pub(super) async fn start() -> Result<Self, AttackError> {
        apart(|| async { RedisServer::start().await.map(|server| Self(Arc::new(server))) }).await
    }

    pub(super) fn url(&self) -> String {
        self.0.url()
    }

    /// Stops its process, with its connections open.
    pub(super) fn freeze(&self) -> Result<Frozen<'_>, AttackError> {
        self.0.pause().map_err(failed)?;
        Ok(Frozen(self))
    }

    pub(super) async fn kill(&self) -> Result<(), AttackError> {
        let server = Arc::clone(&self.0);
        apart(|| async move { server.kill().await }).await
    }

    /// Restarts the server, empty, on the same port.
    pub(super) async fn restart(&self) -> Result<(), AttackError> {
        let server = Arc::clone(&self.0);
        apart(|| async move { server.restart().await }).await
    }

    pub(super) async fn flush(&self) -> Result<(), AttackError> {
        let server = Arc::clone(&self.0);
        apart(|| async move { server.command(&["FLUSHALL"]).await.map(drop) }).await
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // A server that is gone needs nothing.
        let _ = self.0.0.resume();
    }
}

/// Runs a future of the testbed, which need not be `Send`, on a thread of its own.
async fn apart<T: Send + 'static, F: Future<Output = Result<T, Error>>>(
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T, AttackError> {
    let runtime = Handle::current();
    let done = spawn_blocking(move || runtime.block_on(work())).await;
    done.map_err(|error| AttackError::Redis(error.into()))?.map_err(failed)
}

fn failed(error: Error) -> AttackError {
    AttackError::Redis(error.into())
}
