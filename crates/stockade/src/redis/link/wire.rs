use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, aio::MultiplexedConnection};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    flight::{Flight, Places},
    look_around::look_around,
    window::{Ceiling, Window},
};
use crate::redis::{LinkError, dial::MAX_IN_FLIGHT};

/// The most commands of one connection that wait for their place.
const MOST_WAITING: usize = 65_536;

/// When a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// At once, whatever is under way: renewals, which are few.
    Now,
    /// Ahead of all ordinary commands: commands that undo others.
    Undoing,
    /// In the order of the calls.
    Ordinary,
}

/// The order in which commands go out on one connection, and the window of those that have no reply yet.
///
/// A command has one of these states. All changes are made under one lock. So a command is either taken back or sent,
/// never both, and the command that undoes a sent command always comes after it:
///
/// | state | ends with |
/// |---|---|
/// | waiting | a place in the window becomes free and no other command is before it: sent |
/// | | [`Wire::take_back`]: gone, certainly never sent |
/// | | [`Wire::watch`] finds the connection silent: gone, certainly never sent |
/// | | [`Wire::close`]: gone, certainly never sent |
/// | sent | its reply arrives, or the connection ends: its place is free |
///
/// The driver of the connection frees the place as it hands out the reply, and sends the next command from there. A
/// caller that does not poll keeps no other caller waiting.
pub(super) struct Wire {
    multiplexed: MultiplexedConnection,
    timeout: Duration,
    ended: CancellationToken,
    /// Notified when the first command begins to wait.
    crowded: Notify,
    ceiling: Arc<Ceiling>,
    /// How many replies were read.
    read: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    in_flight: usize,
    window: Window,
    /// The number of the next waiting command.
    next: u64,
    /// In the order in which they are to be sent. Not empty only while the window is full.
    waiting: BTreeMap<Ticket, Waiting>,
    /// When the last reply arrived, or when the first command was sent after all others had been answered.
    progress: Instant,
    closed: bool,
}

/// The place of a waiting command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(Turn, u64);

struct Waiting {
    make: Box<dyn FnOnce() -> Cmd + Send>,
    behind: Option<Cmd>,
    tell: oneshot::Sender<Result<Started, LinkError>>,
}

/// A sent command.
pub(super) struct Started {
    pub(super) at: Instant,
    pub(super) flight: Flight,
    /// The command sent right behind it.
    pub(super) behind: Option<Flight>,
}

/// The first outcome for a command.
pub(super) enum Entered {
    Started(Started),
    Waiting(Ticket, oneshot::Receiver<Result<Started, LinkError>>),
}

impl Wire {
    pub(super) fn new(
        multiplexed: MultiplexedConnection,
        timeout: Duration,
        ended: CancellationToken,
        ceiling: Arc<Ceiling>,
    ) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            in_flight: 0,
            window: Window::new(now),
            next: 0,
            waiting: BTreeMap::new(),
            progress: now,
            closed: false,
        };
        let (crowded, read, state) = (Notify::new(), AtomicUsize::new(0), Mutex::new(state));
        Arc::new(Self { multiplexed, timeout, ended, crowded, ceiling, read, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the command, or lets it wait for its place. `make` is called under the lock when the command is sent;
    /// `behind` goes out right after it.
    pub(super) fn enter(
        self: &Arc<Self>,
        turn: Turn,
        make: impl FnOnce() -> Cmd + Send + 'static,
        behind: Option<Cmd>,
    ) -> Result<Entered, LinkError> {
        let mut state = self.lock();
        if state.closed {
            return Err(LinkError::Down);
        }
        if turn == Turn::Now || self.has_room(&state) {
            return self.send(&mut state, make, behind).map(Entered::Started);
        }
        if state.waiting.len() >= MOST_WAITING {
            return Err(LinkError::Unsent { silent: false });
        }
        let ticket = Ticket(turn, state.next);
        state.next += 1;
        let (tell, told) = oneshot::channel();
        if state.waiting.is_empty() {
            self.crowded.notify_one();
        }
        state.waiting.insert(ticket, Waiting { make: Box::new(make), behind, tell });
        Ok(Entered::Waiting(ticket, told))
    }

    /// Sends the command at once, outside of the window.
    pub(super) fn start(self: &Arc<Self>, command: Cmd) -> Result<Flight, LinkError> {
        let mut state = self.lock();
        self.send(&mut state, || command, None).map(|started| started.flight)
    }

    /// Takes a command back. False if it is not waiting any more.
    pub(super) fn take_back(&self, ticket: Ticket) -> bool {
        // Assigned first, so that the command is dropped after the lock is released.
        let taken = self.lock().waiting.remove(&ticket);
        taken.is_some()
    }

    fn has_room(&self, state: &State) -> bool {
        state.in_flight < state.window.size().min(self.ceiling.get())
    }

    /// Called after the size of a reply was noted.
    pub(super) fn read(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// When the connection last showed that it answers, or when it began to owe an answer.
    pub(super) fn progress(&self) -> Instant {
        self.lock().progress
    }

    /// Watches for silence while the connection is kept: once the connection has owed an answer for a command time-out,
    /// all waiting commands are told.
    pub(super) async fn watch(&self) {
        loop {
            self.crowded.notified().await;
            while let Some(silent_from) = self.silent_from() {
                sleep_until(silent_from).await;
                look_around().await;
                let waiting = {
                    let mut state = self.lock();
                    let is_silent = state.progress + self.timeout <= Instant::now();
                    if is_silent { std::mem::take(&mut state.waiting) } else { BTreeMap::new() }
                };
                for Waiting { tell, .. } in waiting.into_values() {
                    let _ = tell.send(Err(LinkError::Unsent { silent: true }));
                }
            }
        }
    }

    /// When the waiting commands will be told that the connection is silent, unless a reply comes first. `None` if no
    /// command waits.
    fn silent_from(&self) -> Option<Instant> {
        let state = self.lock();
        (!state.waiting.is_empty()).then(|| state.progress + self.timeout)
    }

    /// Ends all waits: each waiting command is told that the connection is gone.
    pub(super) fn close(&self) {
        let waiting = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        drop(waiting);
    }

    fn send(
        self: &Arc<Self>,
        state: &mut State,
        make: impl FnOnce() -> Cmd,
        behind: Option<Cmd>,
    ) -> Result<Started, LinkError> {
        if self.ended.is_cancelled() {
            return Err(LinkError::Down);
        }
        let at = Instant::now();
        let flight = self.fly(state, at, make())?;
        // An error is ignored here: without a reply to the second command, the reply to the first does not count.
        let behind = behind.and_then(|command| self.fly(state, at, command).ok());
        Ok(Started { at, flight, behind })
    }

    fn fly(self: &Arc<Self>, state: &mut State, at: Instant, command: Cmd) -> Result<Flight, LinkError> {
        if state.in_flight >= MAX_IN_FLIGHT {
            return Err(LinkError::Unsent { silent: false });
        }
        let wire = Arc::downgrade(self);
        let flight = Flight::start(wire, at, self.multiplexed.clone(), command)?;
        if state.in_flight == 0 || flight.is_ready() {
            state.progress = at;
        }
        state.in_flight += usize::from(!flight.is_ready());
        Ok(flight)
    }
}

impl Places for Wire {
    fn freed(self: Arc<Self>, answered: Option<Instant>) {
        // A caller that gives up takes its command back, or leaves its receiver to a task. A receiver can still be
        // gone, for instance when a runtime ends. Its command must not be dropped under the lock, because dropping
        // takes that lock.
        let mut left = Vec::new();
        let mut guard = self.lock();
        let state = &mut *guard;
        state.in_flight = state.in_flight.saturating_sub(1);
        if let Some(sent) = answered {
            state.progress = Instant::now();
            let (crowd, read) = (!state.waiting.is_empty(), self.read.load(Ordering::Relaxed));
            state.window.fit(sent, state.progress, self.timeout, crowd, read);
        }
        while self.has_room(state)
            && let Some((_, Waiting { make, behind, tell })) = state.waiting.pop_first()
        {
            left.extend(tell.send(self.send(state, make, behind)).err());
        }
        drop(guard);
        drop(left);
    }
}
