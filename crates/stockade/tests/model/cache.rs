//! Two writers of one row, two readers that load, and a third reader that joins their loads.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::check;

const WRITERS: u8 = 2;
const READERS: usize = 2;

/// The defences of a strict cache against a value that is older than an acknowledged write.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a defence that can be switched off")]
struct Cache {
    /// A write is announced before it commits.
    intents: bool,
    /// An intent does not end because time passed.
    intents_last: bool,
    /// No lease is given while there is an intent.
    lease_heeds_intents: bool,
    /// A fill needs the token of its own lease.
    tokens: bool,
    /// Each attempt has a token of its own. Without this defence both readers share the token of their process.
    fresh_tokens: bool,
    /// The announcement of a write and the end of its intent void the token.
    void: bool,
    /// No caller joins a load once its fill is on its way.
    closes_before_fill: bool,
    /// A reader that joined after the query of the load takes the answer only if the value was stored.
    late_need_acceptance: bool,
}

const STRICT: Cache = Cache {
    intents: true,
    intents_last: true,
    lease_heeds_intents: true,
    tokens: true,
    fresh_tokens: true,
    void: true,
    closes_before_fill: true,
    late_need_acceptance: true,
};

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Writer {
    Idle,
    /// Holds the row lock, and has written. No cache was told.
    Written,
    Announced,
    Committed,
    Over,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Reader {
    Idle,
    /// The highest version that was acknowledged when the call began.
    Called {
        least: u8,
    },
    /// The store had no value.
    Missed {
        least: u8,
    },
    /// There was an intent, so the reader loads without a lease.
    Bypassing {
        least: u8,
    },
    Leased {
        least: u8,
        token: u8,
    },
    Loaded {
        least: u8,
        token: u8,
        seen: u8,
    },
    /// The fill was executed, and its reply is on its way.
    Filled {
        least: u8,
        seen: u8,
        accepted: bool,
    },
    Done {
        least: u8,
        seen: u8,
    },
}

/// A caller that joins the load of a reader.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Follower {
    Idle,
    /// `late`: the caller joined after the query of the load.
    Joined {
        reader: usize,
        least: u8,
        late: bool,
    },
    Done {
        least: u8,
        seen: u8,
    },
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct State {
    committed: u8,
    acknowledged: u8,
    value: Option<u8>,
    token: Option<u8>,
    next_token: u8,
    intents: BTreeSet<u8>,
    writers: [Writer; WRITERS as usize],
    readers: [Reader; READERS],
    follower: Follower,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Write(u8),
    Announce(u8),
    Commit(u8),
    RollBack(u8),
    /// The end of the intent is executed, and the write is acknowledged.
    End(u8),
    /// The write is acknowledged, and the end of its intent is lost.
    LoseEnd(u8),
    /// A reader or the relay ends the intent of a transaction that is over.
    Settle(u8),
    /// An intent ends because time has passed.
    Lapse(u8),
    Evict,
    /// The lease of a load expires.
    ExpireToken,
    Call(usize),
    Read(usize),
    Lease(usize),
    Load(usize),
    Fill(usize),
    Hear(usize),
    Join(usize),
    Land,
}

impl Cache {
    fn drop_value(&self, state: &mut State) {
        state.value = None;
        if self.void {
            state.token = None;
        }
    }

    /// Without intents the value is dropped after the commit, as caches usually do.
    fn end(&self, state: &mut State, writer: u8) {
        state.intents.remove(&writer);
        self.drop_value(state);
    }
}

impl Model for Cache {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let empty = State {
            committed: 0,
            acknowledged: 0,
            value: None,
            token: None,
            next_token: 1,
            intents: BTreeSet::new(),
            writers: [Writer::Idle; WRITERS as usize],
            readers: [Reader::Idle; READERS],
            follower: Follower::Idle,
        };
        vec![State { value: Some(0), ..empty.clone() }, empty]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let row_is_free =
            state.writers.iter().all(|writer| matches!(writer, Writer::Idle | Writer::Committed | Writer::Over));
        for number in 0..WRITERS {
            match state.writers[usize::from(number)] {
                Writer::Idle if row_is_free => actions.push(Action::Write(number)),
                Writer::Idle | Writer::Over => {}
                Writer::Written => actions.push(Action::Announce(number)),
                Writer::Announced => actions.extend([Action::Commit(number), Action::RollBack(number)]),
                Writer::Committed => actions.extend([Action::End(number), Action::LoseEnd(number)]),
            }
            if state.intents.contains(&number) {
                if matches!(state.writers[usize::from(number)], Writer::Committed | Writer::Over) {
                    actions.push(Action::Settle(number));
                }
                if !self.intents_last {
                    actions.push(Action::Lapse(number));
                }
            }
        }
        if state.value.is_some() {
            actions.push(Action::Evict);
        }
        if state.token.is_some() {
            actions.push(Action::ExpireToken);
        }
        for (number, reader) in state.readers.iter().enumerate() {
            match reader {
                Reader::Idle => actions.push(Action::Call(number)),
                Reader::Called { .. } => actions.push(Action::Read(number)),
                Reader::Missed { .. } => actions.push(Action::Lease(number)),
                Reader::Bypassing { .. } | Reader::Leased { .. } => actions.push(Action::Load(number)),
                Reader::Loaded { .. } => actions.push(Action::Fill(number)),
                Reader::Filled { .. } => actions.push(Action::Hear(number)),
                Reader::Done { .. } => {}
            }
            let open = match reader {
                Reader::Leased { .. } | Reader::Loaded { .. } => true,
                Reader::Filled { .. } => !self.closes_before_fill,
                _ => false,
            };
            if open && state.follower == Follower::Idle {
                actions.push(Action::Join(number));
            }
        }
        if let Follower::Joined { reader, .. } = state.follower
            && matches!(state.readers[reader], Reader::Done { .. })
        {
            actions.push(Action::Land);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Write(number) => state.writers[usize::from(number)] = Writer::Written,
            Action::Announce(number) => {
                if self.intents {
                    state.intents.insert(number);
                    self.drop_value(&mut state);
                }
                state.writers[usize::from(number)] = Writer::Announced;
            }
            Action::Commit(number) => {
                state.committed += 1;
                state.writers[usize::from(number)] = Writer::Committed;
            }
            Action::RollBack(number) => state.writers[usize::from(number)] = Writer::Over,
            Action::End(number) => {
                self.end(&mut state, number);
                state.acknowledged = state.committed;
                state.writers[usize::from(number)] = Writer::Over;
            }
            Action::LoseEnd(number) => {
                state.acknowledged = state.committed;
                state.writers[usize::from(number)] = Writer::Over;
            }
            Action::Settle(number) => self.end(&mut state, number),
            Action::Lapse(number) => {
                state.intents.remove(&number);
            }
            Action::Evict => state.value = None,
            Action::ExpireToken => state.token = None,
            Action::Call(number) => state.readers[number] = Reader::Called { least: state.acknowledged },
            Action::Read(number) => {
                let Reader::Called { least } = state.readers[number] else { return None };
                state.readers[number] = match state.value {
                    Some(seen) => Reader::Done { least, seen },
                    None => Reader::Missed { least },
                };
            }
            Action::Lease(number) => {
                let Reader::Missed { least } = state.readers[number] else { return None };
                state.readers[number] = if self.lease_heeds_intents && !state.intents.is_empty() {
                    Reader::Bypassing { least }
                } else if let Some(seen) = state.value {
                    Reader::Done { least, seen }
                } else if state.token.is_some() {
                    // Another reader has the lease. The store tells this reader when to ask again.
                    return None;
                } else {
                    let token = if self.fresh_tokens { state.next_token } else { 1 };
                    state.next_token += 1;
                    state.token = Some(token);
                    Reader::Leased { least, token }
                };
            }
            Action::Load(number) => {
                let seen = state.committed;
                state.readers[number] = match state.readers[number] {
                    Reader::Bypassing { least } => Reader::Done { least, seen },
                    Reader::Leased { least, token } => Reader::Loaded { least, token, seen },
                    _ => return None,
                };
            }
            Action::Fill(number) => {
                let Reader::Loaded { least, token, seen } = state.readers[number] else { return None };
                let accepted = !self.tokens || state.token == Some(token);
                if accepted {
                    state.value = Some(seen);
                    state.token = None;
                }
                state.readers[number] = Reader::Filled { least, seen, accepted };
            }
            Action::Hear(number) => {
                let Reader::Filled { least, seen, accepted } = state.readers[number] else { return None };
                state.readers[number] = Reader::Done { least, seen };
                if let Follower::Joined { reader, late: true, .. } = state.follower
                    && reader == number
                    && !accepted
                    && self.late_need_acceptance
                {
                    // The follower asks again. In this model it then counts as a new follower.
                    state.follower = Follower::Idle;
                }
            }
            Action::Join(reader) => {
                let late = !matches!(state.readers[reader], Reader::Leased { .. });
                state.follower = Follower::Joined { reader, least: state.acknowledged, late };
            }
            Action::Land => {
                let Follower::Joined { reader, least, .. } = state.follower else { return None };
                let Reader::Done { seen, .. } = state.readers[reader] else { return None };
                state.follower = Follower::Done { least, seen };
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("no read is older than an acknowledged write", |_, state| {
                let readers = state.readers.iter().all(|reader| match reader {
                    Reader::Done { least, seen } => seen >= least,
                    _ => true,
                });
                readers && !matches!(state.follower, Follower::Done { least, seen } if seen < least)
            }),
            Property::<Self>::always("no value beside an intent", |_, state| {
                state.value.is_none() || state.intents.is_empty()
            }),
            Property::<Self>::sometimes("a value is served after a write", |_, state| {
                state.readers.iter().any(|reader| matches!(reader, Reader::Done { least: 1.., .. }))
                    && state.value.is_some()
            }),
        ]
    }
}

const STALE: &str = "no read is older than an acknowledged write";
const SEEN: &str = "a value is served after a write";

#[test]
fn a_strict_cache_never_serves_what_is_older_than_an_acknowledged_write() {
    assert_eq!(check(STRICT, STALE), [SEEN]);
}

#[test]
fn each_defence_of_the_strict_cache_is_needed() {
    let without = |model: Cache| check(model, STALE).contains(&STALE);
    assert!(without(Cache { intents: false, ..STRICT }), "invalidation after the commit alone");
    assert!(without(Cache { intents_last: false, ..STRICT }), "intents that lapse");
    assert!(without(Cache { lease_heeds_intents: false, ..STRICT }), "leases beside intents");
    assert!(without(Cache { tokens: false, ..STRICT }), "fills without a token");
    assert!(without(Cache { fresh_tokens: false, ..STRICT }), "one token for a process");
    assert!(without(Cache { void: false, ..STRICT }), "tokens that outlive a write");
    assert!(without(Cache { closes_before_fill: false, ..STRICT }), "joining behind a fill");
    assert!(without(Cache { late_need_acceptance: false, ..STRICT }), "late callers of a refused load");
}
