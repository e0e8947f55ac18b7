use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use redis::{Cmd, aio::MultiplexedConnection};
use tokio::{
    sync::Notify,
    task::yield_now,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    flight::{Flight, Started},
    joined::Joins,
    look_around::look_around,
    notice::{Teller, Told, Untold, notice},
    window::{Ceiling, Window},
};
use crate::redis::LinkError;

/// The most commands of one connection that wait for their place.
const MOST_WAITING: usize = 65_536;
/// While so many commands have no reply yet, a call of a script that takes several waits for those that other tasks are
/// about to make, and becomes one command with them. With fewer, the server would have nothing to do meanwhile: 16
/// callers that do nothing else then take up to a fourth longer, to save a twentieth to a fifth of the server's work.
pub(super) const BUSY: usize = 24;
/// The most calls that become one command. The server does nothing else meanwhile.
pub(super) const MOST_JOINED: usize = 16;

/// When a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// At once, whatever is under way: renewals, which are few, and what is useless a moment later.
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
/// | waiting | a place in the window becomes free and no other command is before it: sent, see [`sending`](super::sending) |
/// | | [`Wire::gather`] has let other tasks run, and there is a place: sent |
/// | | [`Wire::take_back`]: gone, certainly never sent |
/// | | [`Wire::watch`] finds the connection silent: gone, certainly never sent |
/// | | [`Wire::close`]: gone, certainly never sent |
/// | sent | its reply arrives, or the connection ends: its place is free |
///
/// The driver of the connection frees the place as it hands out the reply, and sends the next command from there. A
/// caller that does not poll keeps no other caller waiting.
pub(super) struct Wire {
    pub(super) multiplexed: MultiplexedConnection,
    pub(super) timeout: Duration,
    pub(super) ended: CancellationToken,
    /// Notified when commands begin to wait for a place.
    crowded: Notify,
    /// Notified when a call begins to wait for others to become one with.
    gathering: Notify,
    pub(super) ceiling: Arc<Ceiling>,
    /// How many replies were read.
    pub(super) read: AtomicUsize,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) in_flight: usize,
    pub(super) window: Window,
    /// The number of the next waiting command.
    next: u64,
    /// In the order in which they are to be sent. Not empty only while the window is full or commands gather.
    pub(super) waiting: BTreeMap<Ticket, Waiting>,
    /// Whether the waiting commands are sent once the tasks that are ready now have run.
    pub(super) gathers: bool,
    /// When the last reply arrived, or when the first command was sent after all others had been answered.
    pub(super) progress: Instant,
    closed: bool,
}

/// The place of a waiting command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(Turn, u64);

pub(super) struct Waiting {
    pub(super) make: Box<dyn FnOnce() -> Cmd + Send>,
    pub(super) joins: Option<Joins>,
    pub(super) teller: Teller,
}

/// The first outcome for a command.
pub(super) enum Entered {
    Started(Started),
    Waiting(Ticket, Told),
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
            gathers: false,
            progress: now,
            closed: false,
        };
        let (crowded, gathering) = (Notify::new(), Notify::new());
        let (read, state) = (AtomicUsize::new(0), Mutex::new(state));
        Arc::new(Self { multiplexed, timeout, ended, crowded, gathering, ceiling, read, state })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sends the command, or lets it wait: for its place, or for others to become one with. `make` is called under the
    /// lock when the command is sent.
    pub(super) fn enter(
        self: &Arc<Self>,
        turn: Turn,
        make: impl FnOnce() -> Cmd + Send + 'static,
        joins: Option<Joins>,
    ) -> Result<Entered, LinkError> {
        let mut state = self.lock();
        if state.closed {
            return Err(LinkError::Down);
        }
        let has_room = self.room(&state) > 0;
        let gathers = !state.waiting.is_empty() || (joins.is_some() && state.in_flight >= BUSY);
        if turn == Turn::Now || (has_room && !gathers) {
            return self.send(&mut state, make).map(Entered::Started);
        }
        if state.waiting.len() >= MOST_WAITING {
            return Err(LinkError::Unsent { silent: false });
        }
        let ticket = Ticket(turn, state.next);
        state.next += 1;
        let (teller, told) = notice();
        if has_room && !state.gathers {
            self.gather_soon(&mut state);
        } else if !has_room && state.waiting.is_empty() {
            self.crowded.notify_one();
        }
        state.waiting.insert(ticket, Waiting { make: Box::new(make), joins, teller });
        // More calls than these would not become one command.
        let untold = if state.waiting.len() >= MOST_JOINED { self.send_waiting(&mut state) } else { Untold::new() };
        drop(state);
        drop(untold);
        Ok(Entered::Waiting(ticket, told))
    }

    pub(super) fn gather_soon(&self, state: &mut State) {
        state.gathers = true;
        self.gathering.notify_one();
    }

    /// Sends the command at once, outside of the window.
    pub(super) fn start(self: &Arc<Self>, command: Cmd) -> Result<Flight, LinkError> {
        let mut state = self.lock();
        self.send(&mut state, || command).map(|started| started.flight)
    }

    /// Takes a command back. False if it is not waiting any more.
    pub(super) fn take_back(&self, ticket: Ticket) -> bool {
        // Assigned first, so that the command is dropped after the lock is released.
        let taken = self.lock().waiting.remove(&ticket);
        taken.is_some()
    }

    /// Called after the size of a reply was noted.
    pub(super) fn read(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// When the connection last showed that it answers, or when it began to owe an answer.
    pub(super) fn progress(&self) -> Instant {
        self.lock().progress
    }

    /// Whether the connection has owed an answer for a command time-out and given none.
    pub(super) fn stands_still(&self) -> bool {
        let state = self.lock();
        state.in_flight > 0 && state.progress + self.timeout <= Instant::now()
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
                for Waiting { teller, .. } in waiting.into_values() {
                    teller.tell(Err(LinkError::Unsent { silent: true }));
                }
            }
        }
    }

    /// Sends the commands that gather, while the connection is kept: each time once the tasks that were ready have run,
    /// which may call commands, too.
    pub(super) async fn gather(self: &Arc<Self>) {
        loop {
            self.gathering.notified().await;
            yield_now().await;
            let mut state = self.lock();
            state.gathers = false;
            let untold = self.send_waiting(&mut state);
            if !state.waiting.is_empty() {
                self.crowded.notify_one();
            }
            drop(state);
            drop(untold);
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
}
