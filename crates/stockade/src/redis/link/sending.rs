//! How commands go out on the wire. Nothing here waits.

use std::{
    slice,
    sync::{Arc, Weak, atomic::Ordering},
};

use redis::Cmd;
use tokio::time::Instant;

use super::{
    flight::{Flight, Places, Started},
    joined::Joins,
    notice::Untold,
    wire::{BUSY, MOST_JOINED, State, Waiting, Wire},
};
use crate::redis::{LinkError, dial::MAX_IN_FLIGHT};

impl Wire {
    /// How many more commands may be without a reply.
    pub(super) fn room(&self, state: &State) -> usize {
        state.window.size().min(self.ceiling.get()).saturating_sub(state.in_flight)
    }

    pub(super) fn send(self: &Arc<Self>, state: &mut State, make: impl FnOnce() -> Cmd) -> Result<Started, LinkError> {
        if self.ended.is_cancelled() {
            return Err(LinkError::Down);
        }
        let (at, command) = (Instant::now(), make());
        if state.in_flight >= MAX_IN_FLIGHT {
            return Err(LinkError::Unsent { silent: false });
        }
        let flight = Flight::start(self.places(), at, self.multiplexed.clone(), command)?;
        state.flies(at, slice::from_ref(&flight));
        Ok(Started { at, flight })
    }

    fn places(self: &Arc<Self>) -> Weak<dyn Places> {
        let wire: Weak<Self> = Arc::downgrade(self);
        wire
    }

    /// Sends as many of the waiting commands as have room.
    pub(super) fn send_waiting(self: &Arc<Self>, state: &mut State) -> Untold {
        let mut untold = Untold::new();
        while let room @ 1.. = self.room(state)
            && let Some((_, first)) = state.waiting.pop_first()
        {
            let Some(joins) = first.joins else {
                let Waiting { make, teller, .. } = first;
                untold.extend(teller.tell(self.send(state, make)));
                continue;
            };
            let mut calls = vec![first];
            while calls.len() < room.min(MOST_JOINED)
                && let Some(next) = state.waiting.first_entry()
                && next.get().joins == Some(joins)
            {
                calls.push(next.remove());
            }
            self.send_joined(state, joins, calls, &mut untold);
        }
        untold
    }

    /// Sends these calls as one command.
    fn send_joined(self: &Arc<Self>, state: &mut State, joins: Joins, calls: Vec<Waiting>, untold: &mut Untold) {
        let at = Instant::now();
        let (makes, tellers): (Vec<_>, Vec<_>) = calls.into_iter().map(|call| (call.make, call.teller)).unzip();
        let sent = match self.ended.is_cancelled() {
            true => Err(LinkError::Down),
            false => {
                let commands: Vec<_> = makes.into_iter().map(|make| make()).collect();
                let command = joins.join(&commands);
                Flight::start_joined(self.places(), at, self.multiplexed.clone(), command, commands.len())
            }
        };
        match sent {
            Ok(flights) => {
                let flights: Vec<_> = flights.collect();
                state.flies(at, &flights);
                for (teller, flight) in tellers.into_iter().zip(flights) {
                    untold.extend(teller.tell(Ok(Started { at, flight })));
                }
            }
            Err(error) => untold.extend(tellers.into_iter().filter_map(|teller| teller.tell(Err(error.clone())))),
        }
    }
}

impl State {
    /// Counts what was sent.
    fn flies(&mut self, at: Instant, flights: &[Flight]) {
        let ready = flights.iter().filter(|flight| flight.is_ready()).count();
        if self.in_flight == 0 || ready > 0 {
            self.progress = at;
        }
        self.in_flight += flights.len() - ready;
    }
}

impl Places for Wire {
    fn freed(self: Arc<Self>, places: usize, answered: Option<Instant>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.in_flight = state.in_flight.saturating_sub(places);
        if let Some(sent) = answered {
            state.progress = Instant::now();
            // What gathers only waits for its command, unless it is more than there are places for.
            let (crowd, read) = (state.waiting.len() > self.room(state), self.read.load(Ordering::Relaxed));
            for _ in 0..places {
                state.window.fit(sent, state.progress, self.timeout, crowd, read);
            }
        }
        // Commands that gather are sent in a moment, with what other replies make room for until then.
        let first = state.waiting.first_key_value();
        if !state.gathers && state.in_flight >= BUSY && first.is_some_and(|(_, first)| first.joins.is_some()) {
            self.gather_soon(state);
        }
        let untold = if state.gathers { Untold::new() } else { self.send_waiting(state) };
        drop(guard);
        drop(untold);
    }
}
