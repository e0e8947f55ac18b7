use std::fmt;

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    redis::{Link, Script, script},
    resource::Namespace,
};

pub(super) static TAKE_OVER: Script = script!("setnx_take_over", "scripts/take_over.lua");
pub(super) static RELEASE: Script = script!("setnx_release", "scripts/release.lua");

/// What handles, locks and guards share.
pub(super) struct Core {
    pub(super) link: Link,
    pub(super) own_keys: Namespace,
    pub(super) closing: CancellationToken,
    /// Attempts and releases. They run to their end even if their caller is gone.
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
}

impl Core {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetnxLocks").field("link", &self.link).finish_non_exhaustive()
    }
}
