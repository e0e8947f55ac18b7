//! Whether the primary may have been replaced without knowing it. Such a primary goes on answering reads. With
//! `min-replicas-to-write` it rejects writes, so a write on the connection of the reads shows whether it was replaced.

use std::time::Duration;

use parking_lot::Mutex;
use redis::Cmd;

use super::keys::Keys;
use crate::{clock::Instant, redis::Succession};

/// For how long after it was sent an accepted write vouches for the server. Writes are sent every half second, so two
/// of them may be lost.
const GOOD_FOR: Duration = Duration::from_secs(2);
pub(super) const WHAT_TO_SET: &str = "set `min-replicas-to-write` (half the number of replicas or more) and \
     `min-replicas-max-lag` (10 or less) on every Redis that may become the primary, which has to be of version 7.0 or later";

/// Whether the connected primary accepts writes.
#[derive(Debug, Default)]
pub(super) struct WriteProbe(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of the connection. The other fields are about this connection.
    connection: u64,
    succession: Succession,
    /// When the latest accepted write was sent.
    taken: Option<Instant>,
    /// The succession of the last warning; `None` after a write was accepted.
    told: Option<Succession>,
}

impl WriteProbe {
    /// Begins a new connection, on which nothing was written yet.
    pub(super) fn begin(&self, connection: u64, succession: Succession) {
        let mut state = self.0.lock();
        *state = State { connection, succession, taken: None, told: state.told };
    }

    /// Notes that a write was accepted on this connection.
    pub(super) fn taken(&self, connection: u64, sent: Instant) {
        let mut state = self.0.lock();
        if state.connection == connection {
            state.taken = state.taken.max(Some(sent));
            state.told = None;
        }
    }

    /// Whether replies on this connection come from a server that was not replaced until a moment ago.
    pub(super) fn is_trusted(&self, connection: u64) -> bool {
        let state = self.0.lock();
        state.connection == connection
            && match state.succession {
                Succession::Never | Succession::ByHand => true,
                Succession::Bounded => state.taken.is_some_and(|sent| sent.elapsed() < GOOD_FOR),
                Succession::Unbounded => false,
            }
    }

    /// Whether another server that accepts writes too either does not exist or stops soon.
    pub(super) fn outlasts_rivals(&self, connection: u64) -> bool {
        let state = self.0.lock();
        state.connection == connection
            && match state.succession {
                Succession::Never | Succession::ByHand => true,
                Succession::Bounded => state.taken.is_some(),
                Succession::Unbounded => false,
            }
    }

    pub(super) fn looked(&self, connection: u64, succession: Succession) {
        let mut state = self.0.lock();
        if state.connection == connection {
            // A server that had a rival may still have it. Without the settings nothing stops the rival.
            state.succession = if succession.has_rival() { succession } else { Succession::Unbounded };
            if state.succession == Succession::Unbounded {
                // An accepted write is no evidence any more.
                state.taken = None;
            }
        }
    }

    /// The connection on which to write, if another server may become the primary.
    pub(super) fn wanted(&self) -> Option<(u64, Succession)> {
        let state = self.0.lock();
        state.succession.has_rival().then_some((state.connection, state.succession))
    }

    /// Whether to log a warning: once, until a write is accepted or the succession changes.
    pub(super) fn tells(&self) -> bool {
        let mut state = self.0.lock();
        let succession = Some(state.succession);
        std::mem::replace(&mut state.told, succession) != succession
    }
}

/// A write that changes nothing. A server over its memory limit accepts it too.
pub(super) fn write(keys: &Keys) -> Cmd {
    let mut command = redis::cmd("DEL");
    command.arg(keys.write_probe());
    command
}
