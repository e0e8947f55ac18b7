//! A Redis that an attack starts for itself, so that it may be harmed.

use std::sync::Arc;

use stockade_testbed::{Error, RedisServer};
use tokio::{runtime::Handle, task::spawn_blocking};

use super::AttackError;

/// A private server. It ends when this is dropped, frozen or not, and with the process.
#[derive(Clone, Debug)]
pub(super) struct OwnRedis(Arc<RedisServer>);

/// A server that stands still. It goes on when this is dropped, as when the attack is stopped.
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

    /// Starts it again, empty, on the same port.
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

/// On a thread of its own: a future of the testbed stays on the thread that polls it first.
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
