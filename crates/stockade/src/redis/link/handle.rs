use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, Value};
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
    attempt::{Attempt, Receipt, replies},
    connection::Connection,
    events::LinkEvents,
    ledger,
    pending::{Pending, Terms},
    replicas::Replicas,
    supervisor,
    wire::Turn,
};
use crate::{
    breaker::{Breaker, Permit},
    redis::{LinkError, Redis, Script},
};

/// How many command time-outs a command without a limit of its own waits for its place. A server that is silent ends that
/// within one.
const PLACE: u32 = 20;
const LONGEST: Duration = Duration::from_secs(86_400 * 365);

/// The connections of one role (`lock` or `cache`) to one server: one for commands and the inbox, one for renewals.
///
/// Commands are sent in the order of the calls, some at a time; a caller that gives up, by its time-out or by being
/// dropped, leaves the command in its place, and a task of the link waits for the reply. Those that undo others go first, and
/// an [`Attempt`] that was not sent yet is taken back. Reconnects by itself with jittered backoff.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    /// Ends the tasks when the last clone goes.
    _owner: Arc<DropGuard>,
}

pub(super) struct Shared {
    pub(super) redis: Redis,
    pub(super) role: &'static str,
    pub(super) channels: Vec<String>,
    pub(super) scripts: &'static [&'static Script],
    pub(super) events: Arc<dyn LinkEvents>,
    pub(super) breaker: Breaker,
    pub(super) commands: Slot,
    pub(super) renewals: Slot,
    /// What the server had against its use when it was tried last.
    pub(super) unfit: Mutex<Option<Arc<str>>>,
    pub(super) generation: AtomicU64,
    /// The first renewal asks for the second connection: a cache never makes one.
    pub(super) renewals_wanted: Notify,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
    pub(super) closing: CancellationToken,
    /// Cancelled once the first attempt to connect has ended, either way.
    pub(super) attempted: CancellationToken,
}

/// Where an open connection is found.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Arc<Connection>>>);

impl Slot {
    pub(super) fn get(&self) -> Option<Arc<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What waits for a place on the connection before is told that it is gone.
    pub(super) fn set(&self, connection: Option<Arc<Connection>>) {
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), connection);
        if let Some(before) = before {
            before.wire.close();
        }
    }
}

impl Shared {
    /// Until when a command may wait for its place: as long as its attempt may, and what has no wait of its own for some
    /// command time-outs.
    fn limit(&self, wait: Duration) -> Instant {
        let wait = if wait.is_zero() { self.redis.timeout() * PLACE } else { wait.max(self.redis.timeout()) };
        // As good as for ever.
        Instant::now() + wait.min(LONGEST)
    }
}

impl Shared {
    pub(super) fn set_unfit(&self, said: Option<Arc<str>>) {
        *self.unfit.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }
}

impl Link {
    /// [`Link::new`] that starts connecting at once.
    pub(crate) fn open(
        redis: &Redis,
        role: &'static str,
        channels: Vec<String>,
        scripts: &'static [&'static Script],
        events: Arc<dyn LinkEvents>,
    ) -> Self {
        let link = Self::new(redis, role, channels, scripts, events);
        link.start();
        link
    }

    /// Connects when it is [started](Link::start), once `events` has all that it works with. `role` is `lock`, `legacy` or
    /// `cache` (connection name and breaker label); `channels` are subscribed on every connection before it opens; `scripts`
    /// are loaded. Must be called within a tokio runtime.
    pub(crate) fn new(
        redis: &Redis,
        role: &'static str,
        channels: Vec<String>,
        scripts: &'static [&'static Script],
        events: Arc<dyn LinkEvents>,
    ) -> Self {
        ledger::announce(role);
        supervisor::announce();
        let breaker = Breaker::new(if role == "cache" { "redis_cache" } else { "redis_lock" });
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
            generation: AtomicU64::new(0),
            renewals_wanted: Notify::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            closing: CancellationToken::new(),
            attempted: CancellationToken::new(),
        });
        let owner = Arc::new(shared.closing.clone().drop_guard());
        Self { shared, _owner: owner }
    }

    /// Starts connecting. Must be called once.
    pub(crate) fn start(&self) {
        let Shared { tasks, runtime, .. } = &*self.shared;
        tasks.spawn_on(supervisor::keep_commands(Arc::clone(&self.shared)), runtime);
        tasks.spawn_on(supervisor::keep_renewals(Arc::clone(&self.shared)), runtime);
    }

    /// EVALSHA on the command connection, in the order of the calls.
    ///
    /// Waits for its place on the wire for twenty command time-outs at most. Dropping the future leaves the command in its
    /// place.
    pub(crate) fn call(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending = self.permitted(|connection, permit| {
            let command = connection.evalsha(script, keys, args);
            let terms = Terms { permit: Some(permit), ..self.terms(script.name, Turn::Ordinary) };
            Pending::start(&self.shared, connection, terms, || command, None)
        });
        async move { pending?.reply().await }
    }

    /// [`Link::call`] that waits for no place: for commands that are worth nothing a moment later.
    #[cfg(feature = "redlock")]
    pub(crate) fn call_at_once(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending = self.permitted(|connection, permit| {
            let command = connection.evalsha(script, keys, args);
            let terms = Terms { permit: Some(permit), ..self.terms(script.name, Turn::Now) };
            Pending::start(&self.shared, connection, terms, || command, None)
        });
        async move { pending?.reply().await }
    }

    /// EVALSHA on the command connection for an attempt that has a limit of its own. `make` is called when it is sent, with
    /// the name of the script. With `replicas`, right behind it goes the question whether they have what it wrote.
    ///
    /// Dropping the reply takes the command back if it was not sent yet. [`Attempt::receipt`] then says so.
    pub(crate) fn attempt(
        &self,
        script: &'static Script,
        make: impl FnOnce(&str) -> Cmd + Send + 'static,
        wait: Duration,
        replicas: Option<Replicas>,
    ) -> Attempt {
        let receipt = Receipt::default();
        let pending = self.permitted(|connection, permit| {
            let (sha, receipt) = (connection.sha(script), receipt.clone());
            let make = move || {
                receipt.sent();
                make(&sha)
            };
            let limit = self.shared.limit(wait);
            let terms = Terms { op: script.name, turn: Turn::Ordinary, limit, revocable: true, permit: Some(permit) };
            Pending::start(&self.shared, connection, terms, make, replicas.map(Replicas::command))
        });
        if replicas.is_none() {
            return Attempt { receipt, reply: Box::pin(async move { pending?.reply().await }), copies: None };
        }
        let (reply, copies) = replies(pending, replicas);
        Attempt { receipt, reply: Box::pin(reply), copies: Some(Box::pin(copies)) }
    }

    /// EVALSHA that neither the breaker nor commands of other kinds hold back: for commands that undo others. `make` is
    /// given the name of the script.
    pub(crate) fn call_regardless(
        &self,
        script: &'static Script,
        make: &dyn Fn(&str) -> Cmd,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending = self.shared.commands.get().ok_or(LinkError::Down).and_then(|connection| {
            let command = make(&connection.sha(script));
            Pending::start(&self.shared, &connection, self.terms(script.name, Turn::Undoing), || command, None)
        });
        // Many of these may be under way, each on a task.
        async move { Box::pin(pending?.reply()).await }
    }

    /// [`Link::call`] on the renewal connection. Uses the command connection while the other is not up, so that a lease
    /// never hangs on one of them.
    #[cfg(any(test, feature = "redlock"))]
    pub(crate) fn call_renewal(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        self.call_renewal_replicated(script, keys, args, None).0
    }

    /// On the renewal connection, ahead of all that waits, with the question of [`Link::attempt`]. Without `replicas`
    /// enough have it.
    pub(crate) fn call_renewal_replicated(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
        replicas: Option<Replicas>,
    ) -> (
        impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<>,
        impl Future<Output = Result<bool, LinkError>> + Send + 'static + use<>,
    ) {
        let mut ended = None;
        let pending = self.renewing().ok_or(LinkError::Down).and_then(|connection| {
            ended = Some(connection.ended.clone());
            let command = connection.evalsha(script, keys, args);
            let terms = self.terms(script.name, Turn::Now);
            Pending::start(&self.shared, &connection, terms, || command, replicas.map(Replicas::command))
        });
        let (reply, enough) = replies(pending, replicas);
        let reply = async move {
            let reply = reply.await?;
            // The connection may have been given up because the server is not the primary any more.
            if ended.is_some_and(|ended| ended.is_cancelled()) { Err(LinkError::Lost) } else { Ok(reply) }
        };
        (reply, enough)
    }

    /// A plain command on the command connection; `op` is its metric label. As [`Link::call`].
    pub(crate) fn command(
        &self,
        op: &'static str,
        command: Cmd,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        self.command_in(Turn::Ordinary, op, command)
    }

    /// [`Link::command`] that waits for no place: a subscription, of which there are few, for which many wait.
    pub(crate) fn subscribe(
        &self,
        op: &'static str,
        command: Cmd,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        self.command_in(Turn::Now, op, command)
    }

    fn command_in(
        &self,
        turn: Turn,
        op: &'static str,
        command: Cmd,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending = self.permitted(|connection, permit| {
            let terms = Terms { permit: Some(permit), ..self.terms(op, turn) };
            Pending::start(&self.shared, connection, terms, || command, None)
        });
        async move { pending?.reply().await }
    }

    fn terms(&self, op: &'static str, turn: Turn) -> Terms {
        Terms { op, turn, limit: self.shared.limit(Duration::ZERO), revocable: false, permit: None }
    }

    fn permitted<T>(
        &self,
        start: impl FnOnce(&Arc<Connection>, Permit) -> Result<T, LinkError>,
    ) -> Result<T, LinkError> {
        let permit =
            self.shared.breaker.permit().map_err(|refused| LinkError::Open { retry_after: refused.retry_after })?;
        match self.shared.commands.get() {
            Some(connection) => start(&connection, permit),
            None => {
                permit.failed();
                Err(LinkError::Down)
            }
        }
    }

    /// Both connections may be to different runs of the server for a moment; a renewal that another run answers says
    /// nothing about the lease. The run of the command connection is the one that the owner of the link knows.
    fn renewing(&self) -> Option<Arc<Connection>> {
        self.shared.renewals_wanted.notify_one();
        let commands = self.shared.commands.get()?;
        let renewals = self.shared.renewals.get().filter(|renewals| renewals.up.run_id == commands.up.run_id);
        Some(renewals.unwrap_or(commands))
    }

    #[cfg(test)]
    pub(crate) fn renewals_are_up(&self) -> bool {
        self.shared.renewals.get().is_some()
    }

    /// Returns once the first attempt to connect has ended, or after the command time-out: a call made right after
    /// [`Link::start`] would otherwise be refused by a healthy server.
    pub(crate) async fn attempted(&self) {
        if !self.shared.attempted.is_cancelled() {
            let _ = timeout(self.timeout(), self.shared.attempted.cancelled()).await;
        }
    }

    /// Whether the command connection is open.
    pub(crate) fn is_up(&self) -> bool {
        self.shared.commands.get().is_some()
    }

    /// What the server has against its use, in words for people; `None` while it is used, and where none can be reached.
    pub(crate) fn unfit(&self) -> Option<Arc<str>> {
        self.shared.unfit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts connections: grows by one at every `opened`.
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
        let deadline = Instant::now() + limit;
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
