//! A primary that was replaced and does not know it goes on answering reads. With `min-replicas-to-write` it stops
//! taking writes, so that a write on the connection of the reads tells the two apart.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::Cmd;

use super::keys::Keys;
use crate::{clock::Instant, redis::Succession};

/// How long a write that was taken stands for the server, from when it was sent. Two may be lost meanwhile.
const GOOD_FOR: Duration = Duration::from_secs(2);
pub(super) const WHAT_TO_SET: &str = "set `min-replicas-to-write` (half the number of replicas or more) and \
     `min-replicas-max-lag` (10 or less) on every Redis that may become the primary, which has to be of version 7.0 or later";

/// Whether the primary at the other end takes writes.
#[derive(Debug, Default)]
pub(super) struct WriteProbe(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of the connection that the rest is about.
    connection: u64,
    succession: Succession,
    /// When the latest write was sent that was taken.
    taken: Option<Instant>,
    /// What it was last said about that it bounds nothing, or that reads are loads for it.
    told: Option<Succession>,
}

impl WriteProbe {
    /// A new connection, on which nothing was written yet.
    pub(super) fn begin(&self, connection: u64, succession: Succession) {
        let mut state = self.lock();
        *state = State { connection, succession, taken: None, told: state.told };
    }

    /// A write that was sent on this connection, or a later one, was taken.
    pub(super) fn taken(&self, connection: u64, sent: Instant) {
        let mut state = self.lock();
        if state.connection == connection {
            state.taken = state.taken.max(Some(sent));
            state.told = None;
        }
    }

    /// Whether what is read on this connection, up to now, comes from a server that nobody had replaced a moment ago.
    pub(super) fn is_trusted(&self, connection: u64) -> bool {
        let state = self.lock();
        state.connection == connection
            && match state.succession {
                Succession::Never | Succession::ByHand => true,
                Succession::Bounded => state.taken.is_some_and(|sent| sent.elapsed() < GOOD_FOR),
                Succession::Unbounded => false,
            }
    }

    /// Whether a rival of the server on this connection has stopped taking writes, or soon will.
    pub(super) fn outlasts_rivals(&self, connection: u64) -> bool {
        let state = self.lock();
        state.connection == connection
            && match state.succession {
                Succession::Never | Succession::ByHand => true,
                Succession::Bounded => state.taken.is_some(),
                Succession::Unbounded => false,
            }
    }

    pub(super) fn looked(&self, connection: u64, succession: Succession) {
        let mut state = self.lock();
        if state.connection == connection {
            // Who had a rival may have one still: without the settings nothing bounds it any more.
            state.succession = if succession.has_rival() { succession } else { Succession::Unbounded };
            if state.succession == Succession::Unbounded {
                // What it took says nothing of others any more.
                state.taken = None;
            }
        }
    }

    /// The connection that a pulse is to be asked for on.
    pub(super) fn wanted(&self) -> Option<(u64, Succession)> {
        let state = self.lock();
        state.succession.has_rival().then_some((state.connection, state.succession))
    }

    /// Whether somebody is to be told; once, until writes are taken again.
    pub(super) fn tells(&self) -> bool {
        let mut state = self.lock();
        let succession = Some(state.succession);
        std::mem::replace(&mut state.told, succession) != succession
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write that changes nothing, and that a server without memory takes.
pub(super) fn write(keys: &Keys) -> Cmd {
    let mut command = redis::cmd("DEL");
    command.arg(keys.write_probe());
    command
}
