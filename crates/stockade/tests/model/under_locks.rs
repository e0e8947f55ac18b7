//! One key of a cache that is built `under_locks`. The readers of a process share a lock that the process takes and
//! gives back, and the memory of the process. Two writers may lose their lock before they commit.

use stateright::{Model, Property};

use crate::check;

const WRITERS: usize = 2;
const READERS: usize = 2;
/// How often the process takes its lock. Values that were asked for before that were asked for under no lock.
const GRANTS: u8 = 1;

/// The defences of a process's memory against a value that is older than an acknowledged write.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a defence that can be switched off")]
struct UnderLocks {
    /// A value is served only if it was asked for under the lock that is held now.
    asked_since: bool,
    /// No value is served while a message of an invalidation is overdue.
    live: bool,
    /// A commit whose lock was lost is acknowledged once its messages have come or are overdue.
    late_waits: bool,
    /// A value that is invalidated between a question and its answer is not put into memory.
    reserved: bool,
    /// A writer has its lock until its invalidations are made, unless it loses it.
    held_to_the_end: bool,
}

const ALL: UnderLocks =
    UnderLocks { asked_since: true, live: true, late_waits: true, reserved: true, held_to_the_end: true };

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Lock {
    Free,
    Writer(usize),
    /// The process holds the lock shared, for the n-th time.
    Shared(u8),
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Writer {
    Idle,
    /// The writer has the lock, or had it, and has claimed its row.
    Writing,
    Committed {
        version: u8,
    },
    /// The writer has made its invalidations, and had lost its lock by then. `overdue`: the messages have come, or are
    /// overdue.
    Waiting {
        version: u8,
        overdue: bool,
    },
    Over,
}

/// A reader of the process. `under`: the lock under which it asked, or zero.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Reader {
    Idle,
    Asking {
        under: u8,
        void: bool,
    },
    /// The reader found no value, and may load.
    Leased {
        under: u8,
        void: bool,
    },
    Loaded {
        under: u8,
        void: bool,
        seen: u8,
    },
    /// The reader has the answer of the store, and has not put it into memory.
    Answered {
        under: u8,
        void: bool,
        seen: u8,
    },
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct State {
    lock: Lock,
    grants: u8,
    committed: u8,
    acknowledged: u8,
    /// The value in Redis.
    value: Option<u8>,
    /// The reader that has the lease.
    token: Option<usize>,
    /// The value in the memory of the process, and the lock under which it was asked for.
    memory: Option<(u8, u8)>,
    /// Messages on their way to the process, in order, and how many of them are overdue.
    messages: u8,
    overdue: u8,
    writers: [Writer; WRITERS],
    readers: [Reader; READERS],
    /// The value that the last step served from memory.
    served: Option<Served>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Served {
    Old,
    /// The value contains every acknowledged write, and at least one.
    Good,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A writer gets the lock and claims its row.
    Acquire(usize),
    /// The writer's lease ends, its lock is forced, or it gives the lock back.
    Lose(usize),
    Commit(usize),
    /// The writer makes its invalidations.
    Flush(usize),
    Acknowledge(usize),
    /// The writer dies, and the relay makes its invalidations.
    Relay(usize),
    /// The process gets the lock.
    Share,
    Recall,
    /// Time passes until the messages on their way are overdue.
    Wait,
    Hear,
    Ask(usize),
    /// A reader's question arrives at the store.
    Find(usize),
    Load(usize),
    Fill(usize),
    Put(usize),
    Serve,
}

impl State {
    fn invalidate(&mut self) {
        (self.value, self.token) = (None, None);
        self.messages += 1;
    }

    fn has_lock(&self, writer: usize) -> bool {
        self.lock == Lock::Writer(writer)
    }
}

impl Model for UnderLocks {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lock: Lock::Free,
            grants: 0,
            committed: 0,
            acknowledged: 0,
            value: None,
            token: None,
            memory: None,
            messages: 0,
            overdue: 0,
            writers: [Writer::Idle; WRITERS],
            readers: [Reader::Idle; READERS],
            served: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, writer) in state.writers.iter().enumerate() {
            match *writer {
                Writer::Idle if state.lock == Lock::Free => actions.push(Action::Acquire(number)),
                // The claim of the other writer waits for the row, which is locked from the claim to the commit.
                Writer::Writing => actions.push(Action::Commit(number)),
                Writer::Committed { .. } => actions.extend([Action::Flush(number), Action::Relay(number)]),
                Writer::Waiting { overdue: true, .. } => actions.push(Action::Acknowledge(number)),
                Writer::Idle | Writer::Waiting { .. } | Writer::Over => {}
            }
            if state.has_lock(number) {
                actions.push(Action::Lose(number));
            }
        }
        match state.lock {
            Lock::Free if state.grants < GRANTS => actions.push(Action::Share),
            Lock::Shared(_) => actions.push(Action::Recall),
            Lock::Free | Lock::Writer(_) => {}
        }
        let waits = state.writers.iter().any(|writer| matches!(writer, Writer::Waiting { overdue: false, .. }));
        if waits || state.overdue < state.messages {
            actions.push(Action::Wait);
        }
        if state.messages > 0 {
            actions.push(Action::Hear);
        }
        for (number, reader) in state.readers.iter().enumerate() {
            actions.push(match reader {
                Reader::Idle => Action::Ask(number),
                Reader::Asking { .. } => Action::Find(number),
                Reader::Leased { .. } => Action::Load(number),
                Reader::Loaded { .. } => Action::Fill(number),
                Reader::Answered { .. } => Action::Put(number),
            });
        }
        actions.push(Action::Serve);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = State { served: None, ..last.clone() };
        match action {
            Action::Acquire(writer) => {
                // The claim waits for a writer that has claimed the row.
                if state.writers.contains(&Writer::Writing) {
                    return None;
                }
                (state.lock, state.writers[writer]) = (Lock::Writer(writer), Writer::Writing);
            }
            Action::Lose(_) | Action::Recall => state.lock = Lock::Free,
            Action::Commit(number) => {
                state.committed += 1;
                state.writers[number] = Writer::Committed { version: state.committed };
                if !self.held_to_the_end && state.has_lock(number) {
                    state.lock = Lock::Free;
                }
            }
            Action::Flush(number) => {
                let Writer::Committed { version } = state.writers[number] else { return None };
                let held = state.has_lock(number) || !self.held_to_the_end;
                state.invalidate();
                state.writers[number] = Writer::Waiting { version, overdue: held || !self.late_waits };
            }
            Action::Acknowledge(number) => {
                let Writer::Waiting { version, .. } = state.writers[number] else { return None };
                state.acknowledged = state.acknowledged.max(version);
                state.writers[number] = Writer::Over;
                if state.has_lock(number) {
                    state.lock = Lock::Free;
                }
            }
            Action::Relay(number) => {
                state.invalidate();
                state.writers[number] = Writer::Over;
            }
            Action::Share => {
                state.grants += 1;
                state.lock = Lock::Shared(state.grants);
            }
            Action::Wait => {
                state.overdue = state.messages;
                for writer in &mut state.writers {
                    if let Writer::Waiting { overdue, .. } = writer {
                        *overdue = true;
                    }
                }
            }
            Action::Hear => {
                state.messages -= 1;
                state.overdue = state.overdue.saturating_sub(1);
                state.memory = None;
                for reader in &mut state.readers {
                    reader.forget();
                }
            }
            Action::Ask(number) => {
                let under = if let Lock::Shared(under) = state.lock { under } else { 0 };
                state.readers[number] = Reader::Asking { under, void: false };
            }
            Action::Find(number) => {
                let Reader::Asking { under, void } = state.readers[number] else { return None };
                state.readers[number] = match state.value {
                    Some(seen) => Reader::Answered { under, void, seen },
                    // The reader waits for another reader's lease.
                    None if state.token.is_some() => return None,
                    None => {
                        state.token = Some(number);
                        Reader::Leased { under, void }
                    }
                };
            }
            Action::Load(number) => {
                let Reader::Leased { under, void } = state.readers[number] else { return None };
                state.readers[number] = Reader::Loaded { under, void, seen: state.committed };
            }
            Action::Fill(number) => {
                let Reader::Loaded { under, void, seen } = state.readers[number] else { return None };
                state.readers[number] = if state.token == Some(number) {
                    (state.value, state.token) = (Some(seen), None);
                    Reader::Answered { under, void, seen }
                } else {
                    Reader::Idle
                };
            }
            Action::Put(number) => {
                let Reader::Answered { under, void, seen } = state.readers[number] else { return None };
                if !void || !self.reserved {
                    state.memory = Some((seen, under));
                }
                state.readers[number] = Reader::Idle;
            }
            Action::Serve => {
                let Lock::Shared(held) = state.lock else { return None };
                let (seen, under) = state.memory?;
                if (self.asked_since && under != held) || (self.live && state.overdue > 0) {
                    return None;
                }
                state.served = match seen {
                    _ if seen < state.acknowledged => Some(Served::Old),
                    0 => return None,
                    _ => Some(Served::Good),
                };
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(STALE, |_, state| state.served != Some(Served::Old)),
            Property::<Self>::sometimes(SEEN, |_, state| state.served == Some(Served::Good)),
        ]
    }
}

impl Reader {
    /// Notes that the key was invalidated.
    fn forget(&mut self) {
        match self {
            Self::Idle => {}
            Self::Asking { void, .. }
            | Self::Leased { void, .. }
            | Self::Loaded { void, .. }
            | Self::Answered { void, .. } => *void = true,
        }
    }
}

const STALE: &str = "nothing served under the lock is older than an acknowledged write";
const SEEN: &str = "what was written is served from memory";

#[test]
fn what_is_served_under_a_lock_is_never_older_than_an_acknowledged_write() {
    assert_eq!(check(ALL, STALE), [SEEN]);
}

#[test]
fn each_defence_of_memory_under_locks_is_needed() {
    let without = |model: UnderLocks| check(model, STALE).contains(&STALE);
    assert!(without(UnderLocks { asked_since: false, ..ALL }), "what was asked for before the lock");
    assert!(without(UnderLocks { live: false, ..ALL }), "memory that has not heard for long");
    assert!(without(UnderLocks { late_waits: false, ..ALL }), "late commits that are acknowledged at once");
    assert!(without(UnderLocks { reserved: false, ..ALL }), "what was dropped while it was read");
    assert!(
        without(UnderLocks { held_to_the_end: false, ..ALL }),
        "locks that are given back before the caches are told"
    );
}
