//! The duty of a test to check what it leaves behind.

use std::time::Duration;

use stockade_testbed::Leftovers;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

/// How long leftovers may take to go. Queue entries and the leases of most tests live longer, so a key that would only
/// expire counts as left behind.
pub(crate) const PATIENCE: Duration = Duration::from_secs(6);

/// Made at the beginning of a test, which fails if it does not reach it.
pub(crate) struct Ending {
    /// How many tasks there were at the beginning.
    tasks: usize,
    reached: bool,
}

impl Ending {
    pub(crate) fn due() -> Self {
        Self { tasks: alive_tasks(), reached: false }
    }

    /// Waits until there are no leftovers and no more tasks than at the beginning. Timers belong to tasks.
    pub(crate) async fn reach(mut self, left: impl AsyncFn() -> Leftovers) {
        self.reached = true;
        let (limit, before) = (Instant::now() + PATIENCE, self.tasks);
        loop {
            let (left, tasks) = (left().await, alive_tasks());
            if left.is_empty() && tasks <= before {
                return;
            }
            assert!(
                Instant::now() < limit,
                "left behind: {left}, and {tasks} tasks of which {before} were there before"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        assert!(
            self.reached || std::thread::panicking(),
            "a test must come to its `end`, which looks for what is left"
        );
    }
}

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}
