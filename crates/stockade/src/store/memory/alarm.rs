use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::Notify};
use tokio_util::task::TaskTracker;

use super::table::Table;
use crate::clock::Instant;

/// The table, its mutex and the one timer task that ends leases.
#[derive(Debug)]
pub(super) struct Shared {
    table: Mutex<Table>,
    /// Wakes the timer task, because a lease ends earlier than it expects, or because nothing may be left to do.
    pub(super) rearm: Notify,
    pub(super) tasks: TaskTracker,
    /// The runtime in which the store was made. It runs the timer task: the runtime of a caller may stand still as soon
    /// as the caller has its lock.
    home: Option<Handle>,
}

impl Shared {
    pub(super) fn new() -> Self {
        let home = Handle::try_current().ok();
        Self { table: Mutex::default(), rearm: Notify::new(), tasks: TaskTracker::new(), home }
    }

    /// Makes one change of the table. Expired leases end first. Waiters and holders are notified after the mutex is
    /// free.
    pub(super) fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Table, Instant) -> T) -> T {
        let (outcome, effects, starts) = {
            let mut table = self.table.lock();
            let now = Instant::now();
            table.expire(now);
            let outcome = change(&mut table, now);
            let alarm = table.alarm;
            let earlier = table.leases.first().filter(|next| alarm.is_none_or(|alarm| *next < alarm));
            table.alarm = earlier.or(alarm);
            (outcome, std::mem::take(&mut table.effects), earlier.map(|_| alarm.is_none()))
        };
        effects.apply();
        match starts {
            Some(true) => self.start(),
            Some(false) => self.rearm.notify_one(),
            None => {}
        }
        outcome
    }

    fn start(self: &Arc<Self>) {
        let watch = || Running { shared: Arc::clone(self), finished: false }.watch();
        if let Some(home) = &self.home
            && !self.tasks.spawn_on(watch(), home).is_finished()
        {
            return;
        }
        // There is no home, or it has ended. Without any runtime leases end at the next access of the table.
        if let Ok(runtime) = Handle::try_current() {
            self.tasks.spawn_on(watch(), &runtime);
        }
    }
}

/// The timer task. If it is dropped before its end, with its runtime, the next lease starts another timer task.
struct Running {
    shared: Arc<Shared>,
    finished: bool,
}

impl Running {
    async fn watch(mut self) {
        while let Some(next) = self.next() {
            tokio::select! {
                () = tokio::time::sleep(next.remaining()) => {}
                () = self.shared.rearm.notified() => {}
            }
        }
    }

    fn next(&mut self) -> Option<Instant> {
        let next = self.shared.change(|table, _| {
            table.alarm = table.leases.first();
            table.alarm
        });
        // From here on another task may run, whose alarm this one must not clear.
        self.finished = next.is_none();
        next
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.table.lock().alarm = None;
        }
    }
}
