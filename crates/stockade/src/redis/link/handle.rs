use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    events::LinkEvents,
    ledger,
    refusals::Refusals,
    shared::{LONGEST, Shared, Slot},
    supervisor,
};
use crate::{
    breaker::Breaker,
    redis::{Redis, Script},
};

/// The connections of one role (`lock` or `cache`) to one server: one for commands and messages, one for renewals.
///
/// Commands are sent in the order of the calls, a limited number at a time. If a caller gives up, by time-out or drop,
/// its command keeps its place, and a task of the link waits for the reply. Commands that undo others go first, and an
/// [`Attempt`] that was not sent yet is taken back. The link reconnects by itself, with jittered backoff.
#[derive(Clone)]
pub(crate) struct Link {
    pub(super) shared: Arc<Shared>,
    /// Ends the tasks when the last clone is dropped.
    _owner: Arc<DropGuard>,
}

impl Link {
    /// Connects when it is [started](Link::start), once `events` has all that it works with. `role` is `lock`, `legacy`
    /// or `cache` (connection name and breaker label); `channels` are subscribed on every connection before it opens;
    /// `scripts` are loaded. Must be called within a tokio runtime.
    pub(crate) fn new(
        redis: &Redis,
        role: &'static str,
        channels: Vec<String>,
        scripts: &'static [&'static Script],
        events: Arc<dyn LinkEvents>,
    ) -> Self {
        let breaker = Breaker::new(if role == "cache" { "redis_cache" } else { "redis_lock" });
        Self::behind(breaker, redis, role, channels, scripts, events)
    }

    /// Like [`Link::new`], behind a breaker of the caller's.
    pub(crate) fn behind(
        breaker: Breaker,
        redis: &Redis,
        role: &'static str,
        channels: Vec<String>,
        scripts: &'static [&'static Script],
        events: Arc<dyn LinkEvents>,
    ) -> Self {
        ledger::announce(role);
        supervisor::announce();
        let shared = Arc::new(Shared {
            redis: redis.clone(),
            role,
            channels,
            scripts,
            events,
            breaker,
            commands: Slot::default(),
            renewals: Slot::default(),
            unfit: Mutex::default(),
            refusals: Refusals::default(),
            ceiling: Arc::default(),
            generation: AtomicU64::new(0),
            renewals_wanted: Notify::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            closing: CancellationToken::new(),
            attempted: CancellationToken::new(),
            ended: Mutex::default(),
        });
        let owner = Arc::new(shared.closing.clone().drop_guard());
        Self { shared, _owner: owner }
    }

    /// Like [`Link::start`], for events that are ready from the beginning.
    pub(crate) fn started(self) -> Self {
        self.start();
        self
    }

    /// Starts connecting. Must be called once.
    pub(crate) fn start(&self) {
        let Shared { tasks, runtime, .. } = &*self.shared;
        tasks.spawn_on(supervisor::keep_commands(Arc::clone(&self.shared)), runtime);
        tasks.spawn_on(supervisor::keep_renewals(Arc::clone(&self.shared)), runtime);
    }

    /// Whether the next call that gets NOSCRIPT loads the scripts again, on either connection.
    #[cfg(test)]
    pub(crate) fn may_reload_scripts(&self) -> bool {
        let connections = [self.shared.commands.get(), self.shared.renewals.get()];
        connections.into_iter().flatten().all(|connection| connection.scripts.may_reload())
    }

    #[cfg(test)]
    pub(crate) fn renewals_are_up(&self) -> bool {
        self.shared.renewals.is_taken()
    }

    /// Makes the renewal connection stand still: the server answers nothing on it any more. Takes effect only if what
    /// is returned is kept.
    #[cfg(test)]
    pub(crate) fn stall_renewals(&self) -> impl Sized + use<> {
        let mut command = redis::cmd("BLPOP");
        command.arg("what nobody pushes to").arg(0);
        let connection = self.shared.renewals.get().expect("a renewal connection");
        connection.wire.start(command).expect("an open connection")
    }

    /// Returns once the first attempt to connect has ended, or after the command time-out. Without this wait, a call
    /// right after [`Link::start`] would be refused although the server is healthy.
    pub(crate) async fn attempted(&self) {
        if !self.shared.attempted.is_cancelled() {
            let _ = timeout(self.timeout(), self.shared.attempted.cancelled()).await;
        }
    }

    /// A value of this size is about to be stored. Others may read it.
    pub(crate) fn carries(&self, bytes: usize) {
        self.shared.ceiling.carries(bytes);
    }

    /// Whether the command connection is being made, for the first time or after one that ended a moment ago. A server
    /// that is gone for longer is not waited for.
    pub(crate) fn is_up_soon(&self) -> bool {
        let just_ended = self.shared.ended.lock().is_some_and(|ended| ended.elapsed() < self.timeout());
        !self.is_up() && (just_ended || !self.shared.attempted.is_cancelled())
    }

    /// Whether the command connection is open.
    pub(crate) fn is_up(&self) -> bool {
        self.shared.commands.is_taken()
    }

    /// Why the server can't be used, in words for people. `None` while it is used, and also if none can be reached.
    pub(crate) fn unfit(&self) -> Option<Arc<str>> {
        self.shared.unfit.lock().clone()
    }

    /// Counts connections: grows by one before each `opened`.
    pub(crate) fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    pub(crate) fn breaker(&self) -> &Breaker {
        &self.shared.breaker
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.shared.redis.timeout()
    }

    /// Ends the link's tasks, waits up to `limit` for replies under way, then closes both connections.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        let deadline = Instant::now() + limit.min(LONGEST);
        let open = [self.shared.commands.get(), self.shared.renewals.get()];
        self.shared.closing.cancel();
        self.shared.tasks.close();
        if timeout(deadline - Instant::now(), self.shared.tasks.wait()).await.is_err() {
            open.iter().flatten().for_each(|connection| connection.ended.cancel());
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("role", &self.shared.role)
            .field("redis", &self.shared.redis)
            .field("up", &self.is_up())
            .finish_non_exhaustive()
    }
}
