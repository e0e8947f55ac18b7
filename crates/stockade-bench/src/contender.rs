use std::{error::Error, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt};

/// The error of a contender, which ends the run.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// One way to the same end. The task's number keeps tasks on resources of their own.
#[derive(Clone)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    once: Arc<dyn Fn(u32) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>,
}

impl Contender {
    pub(crate) fn new<F, Fut>(name: &'static str, once: F) -> Self
    where
        F: Fn(u32) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self { name, once: Arc::new(move |task| once(task).boxed()) }
    }

    /// Runs the operation once.
    pub(crate) async fn once(&self, task: u32) -> Result<(), Failure> {
        (self.once)(task).await
    }
}
