use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Cmd, aio::MultiplexedConnection};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    flight::{Flight, Window},
    look_around::look_around,
};
use crate::redis::{LinkError, dial::MAX_IN_FLIGHT};

/// How many commands of one connection may have no reply yet: so many at first, then as many as are answered in a part
/// of the command time-out, within these limits. More would only wait at the server, or unread in a process that is
/// busy, instead of here, where a caller can still take its command back.
const WINDOW: RangeInclusive<usize> = 16..=256;
const FIRST_WINDOW: usize = 32;
/// One that took less than this part of the time-out widens the window by one, and one that took more than twice that
/// halves it.
const BRISK: u32 = 4;
/// The most commands of one connection that wait for their place.
const MOST_WAITING: usize = 65_536;

/// When a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// At once, whatever is under way: renewals, which are few.
    Now,
    /// Ahead of all that only begins something: commands that undo others.
    Undoing,
    /// In the order of the calls.
    Ordinary,
}

/// The order in which commands go out on one connection, and the window of those that have no reply yet.
///
/// A command has one of these states. All changes are made under one lock, so that a command is either taken back or
/// sent, never both, and what undoes a sent command always comes after it:
///
/// | state | ends with |
/// |---|---|
/// | waiting | a place in the window becomes free and no other command is before it: sent |
/// | | [`Wire::take_back`]: gone, certainly never sent |
/// | | [`Wire::watch`] finds the connection silent: gone, certainly never sent |
/// | | [`Wire::close`]: gone, certainly never sent |
/// | sent | its reply arrives, or the connection ends: its place is free |
///
/// The place is freed by the driver of the connection as it hands the reply out, and the next command is sent from
/// there. A caller that does not poll keeps nobody waiting.
pub(super) struct Wire {
    multiplexed: MultiplexedConnection,
    timeout: Duration,
    ended: CancellationToken,
    /// Told when the first command waits.
    crowded: Notify,
    state: Mutex<State>,
}

struct State {
    in_flight: usize,
    window: usize,
    /// When the window was last made narrower: what was sent before says nothing about the narrower one.
    narrowed: Instant,
    /// Numbers the commands that wait.
    next: u64,
    /// In the order in which they are to be sent. Not empty only while the window is full.
    waiting: BTreeMap<Ticket, Waiting>,
    /// When the last reply arrived, or when the first command was sent after all others had been answered.
    progress: Instant,
    closed: bool,
}

/// The place of a command among those that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(Turn, u64);

struct Waiting {
    make: Box<dyn FnOnce() -> Cmd + Send>,
    behind: Option<Cmd>,
    tell: oneshot::Sender<Result<Started, LinkError>>,
}

/// What was sent.
pub(super) struct Started {
    pub(super) at: Instant,
    pub(super) flight: Flight,
    /// Sent right behind it.
    pub(super) behind: Option<Flight>,
}

/// What became of a command at first.
pub(super) enum Entered {
    Started(Started),
    Waiting(Ticket, oneshot::Receiver<Result<Started, LinkError>>),
}

impl State {
    /// Fits the window to how long a command took that was answered just now.
    fn fit(&mut self, sent: Instant, timeout: Duration) {
        let took = self.progress.duration_since(sent);
        if took >= timeout / BRISK * 2 && sent >= self.narrowed {
            self.window = (self.window / 2).max(*WINDOW.start());
            self.narrowed = self.progress;
        } else if took < timeout / BRISK && !self.waiting.is_empty() {
            self.window = (self.window + 1).min(*WINDOW.end());
        }
    }
}

impl Wire {
    pub(super) fn new(multiplexed: MultiplexedConnection, timeout: Duration, ended: CancellationToken) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            in_flight: 0,
            window: FIRST_WINDOW,
            narrowed: now,
            next: 0,
            waiting: BTreeMap::new(),
            progress: now,
            closed: false,
        };
        Arc::new(Self { multiplexed, timeout, ended, crowded: Notify::new(), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the command, or lets it wait for its place. `make` is called when it is sent, under the lock; `behind`
    /// goes out right behind it.
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
        if turn == Turn::Now || state.in_flight < state.window {
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

    /// Takes a command back; false when it is not waiting any more.
    pub(super) fn take_back(&self, ticket: Ticket) -> bool {
        // Dropped outside of the lock.
        let taken = self.lock().waiting.remove(&ticket);
        taken.is_some()
    }

    /// When the connection last showed that it answers, or began to owe an answer.
    pub(super) fn progress(&self) -> Instant {
        self.lock().progress
    }

    /// Tells all who wait as soon as the connection is silent, which owes an answer for a command time-out then. Runs
    /// while the connection is kept.
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

    /// When those who wait are told that the connection is silent, if it shows nothing until then; `None` while nobody
    /// waits.
    fn silent_from(&self) -> Option<Instant> {
        let state = self.lock();
        (!state.waiting.is_empty()).then(|| state.progress + self.timeout)
    }

    /// Lets nobody wait any more, who is told that the connection is gone.
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
        // Without an answer to this one the other counts for nothing.
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

impl Window for Wire {
    fn freed(self: Arc<Self>, answered: Option<Instant>) {
        // Whoever gives up takes the command back first, or leaves its receiver to a task. What is left to nobody all
        // the same, as a runtime ends, must not be dropped under the lock, which its own end takes.
        let mut left = Vec::new();
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        if let Some(sent) = answered {
            state.progress = Instant::now();
            state.fit(sent, self.timeout);
        }
        while state.in_flight < state.window
            && let Some((_, Waiting { make, behind, tell })) = state.waiting.pop_first()
        {
            left.extend(tell.send(self.send(&mut state, make, behind)).err());
        }
        drop(state);
        drop(left);
    }
}
