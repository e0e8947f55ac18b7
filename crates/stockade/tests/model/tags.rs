//! Two keys of a cache, one of them with a tag. There are two writers that invalidate the tag, two readers that load, a
//! third reader that joins their loads, and a store that may lose its tags or come back with old data.

use stateright::{Model, Property};

use crate::check;

const WRITERS: usize = 2;
const READERS: usize = 2;

/// The defences of a cache against a value that is older than an invalidation of its tag.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a defence that can be switched off")]
struct Tags {
    /// A load notes the stamp of the tags when its lease is given, not when the load has ended.
    noted_before: bool,
    /// The noted stamp is not given to the value that is stored while the load runs.
    noted_apart: bool,
    /// A fill needs the token of its own lease.
    tokens: bool,
    /// A value is not stored if its tag was invalidated after its stamp was noted. Readers that joined late do not get
    /// the value.
    fills_judged: bool,
    /// The lease script does not serve such a value.
    leases_judged: bool,
    /// A reader does not take such a value.
    reads_judged: bool,
    /// A new table has a new epoch, so older values do not count as valid.
    epochs: bool,
    /// A table from another run of the server is not used.
    runs: bool,
    /// A process does not believe an answer about tags if it was connected to another run when it asked.
    same_run_after: bool,
    /// Scripts name the run that they reach.
    own_run: bool,
    /// A stamp that is forgotten raises the floor.
    floor: bool,
}

const ALL: Tags = Tags {
    noted_before: true,
    noted_apart: true,
    tokens: true,
    fills_judged: true,
    leases_judged: true,
    reads_judged: true,
    epochs: true,
    runs: true,
    same_run_after: true,
    own_run: true,
    floor: true,
};

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Stamp {
    epoch: u8,
    newest: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Table {
    run: u8,
    epoch: u8,
    newest: u8,
    floor: u8,
    /// The stamp of the tag's last invalidation, if it is known.
    tag: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
struct Store {
    /// The value of the key with the tag.
    value: Option<(u8, Stamp)>,
    /// The reader that has the lease. Each reader has one lease at most.
    token: Option<usize>,
    noted: Option<Stamp>,
    table: Option<Table>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Writer {
    Idle,
    Committed { version: u8 },
    Over,
}

/// `least`: the highest version that was acknowledged when the call began.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Reader {
    Idle,
    /// Has a value, and has to ask about its tag. `run`: the run of the server from which the value was read.
    Found {
        least: u8,
        seen: u8,
        stamp: Stamp,
        run: u8,
    },
    Missed {
        least: u8,
    },
    Leased {
        least: u8,
    },
    Loaded {
        least: u8,
        seen: u8,
    },
    Done(Answer),
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
    Done(Answer),
}

/// The age of the value that a caller got: too old, valid after an invalidation, or before any invalidation.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Answer {
    Old,
    Good,
    Early,
}

impl Answer {
    fn of(least: u8, seen: u8) -> Self {
        match least {
            _ if seen < least => Self::Old,
            0 => Self::Early,
            _ => Self::Good,
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct State {
    committed: u8,
    acknowledged: u8,
    store: Store,
    /// The data that the server has after a restart.
    saved: Option<Store>,
    run: u8,
    next_epoch: u8,
    /// One thing may go wrong: the table is lost, stamps are forgotten, or the server comes back with old data.
    went_wrong: bool,
    writers: [Writer; WRITERS],
    readers: [Reader; READERS],
    follower: Follower,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Commit(usize),
    /// The tag is invalidated, and the write is acknowledged.
    Invalidate(usize),
    /// The table is evicted.
    Lose,
    Forget,
    Save,
    /// The server restarts with the saved data.
    Restart,
    /// The other key, which has no tag, is leased. A table that this creates stays.
    LeaseOther,
    /// The lease of a load expires.
    ExpireToken,
    /// A call begins, and reads the stored value.
    Read(usize),
    /// `again`: the process noted its run between its two questions, not before them.
    Judge {
        reader: usize,
        again: bool,
    },
    /// A load begins although there is a value.
    LeaseEarly(usize),
    /// `behind`: the script names the previous run.
    Lease {
        reader: usize,
        behind: bool,
    },
    Load(usize),
    /// The fill and its reply are one step. No caller joins a load once its fill is on its way.
    Fill {
        reader: usize,
        behind: bool,
    },
    Join(usize),
}

impl Tags {
    fn is_of(&self, table: Table, run: u8) -> bool {
        !self.runs || table.run == run
    }

    fn holds(&self, store: &Store, run: u8, stamp: Stamp) -> bool {
        store.table.is_some_and(|table| {
            self.is_of(table, run)
                && table.epoch == stamp.epoch
                && table.floor <= stamp.newest
                && table.tag.is_none_or(|tag| tag <= stamp.newest)
        })
    }

    /// The table for a script that names this run. A new table replaces that of another run.
    fn table<'a>(&self, state: &'a mut State, run: u8) -> &'a mut Table {
        let table = state.store.table.filter(|table| self.is_of(*table, run));
        let table = table.unwrap_or_else(|| {
            let epoch = if self.epochs { state.next_epoch } else { 1 };
            state.next_epoch += 1;
            Table { run, epoch, newest: 0, floor: 0, tag: None }
        });
        state.store.table.insert(table)
    }

    fn stamp(&self, state: &mut State, run: u8) -> Stamp {
        let Table { epoch, newest, .. } = *self.table(state, run);
        Stamp { epoch, newest }
    }

    fn lease(&self, state: &mut State, reader: usize, least: u8, run: u8) -> Option<Reader> {
        if state.store.token.is_some() {
            // Another reader has the lease. The store tells this reader when to ask again.
            return None;
        }
        let noted = self.stamp(state, run);
        if let Some((_, stamp)) = &mut state.store.value
            && !self.noted_apart
        {
            *stamp = noted;
        }
        (state.store.token, state.store.noted) = (Some(reader), Some(noted));
        Some(Reader::Leased { least })
    }

    /// Stores a value. Returns whether it was stored.
    fn fill(&self, state: &mut State, reader: usize, seen: u8, run: u8) -> bool {
        if self.tokens && state.store.token != Some(reader) {
            return false;
        }
        let stamp = if self.noted_before { state.store.noted } else { Some(self.stamp(state, run)) };
        let Some(stamp) = stamp.filter(|stamp| !self.fills_judged || self.holds(&state.store, run, *stamp)) else {
            return false;
        };
        let table = state.store.table;
        state.store = Store { value: Some((seen, stamp)), table, ..Store::default() };
        true
    }
}

impl Model for Tags {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let empty = State {
            committed: 0,
            acknowledged: 0,
            store: Store::default(),
            saved: None,
            run: 0,
            next_epoch: 2,
            went_wrong: false,
            writers: [Writer::Idle; WRITERS],
            readers: [Reader::Idle; READERS],
            follower: Follower::Idle,
        };
        let table = Some(Table { run: 0, epoch: 1, newest: 0, floor: 0, tag: None });
        let value = Some((0, Stamp { epoch: 1, newest: 0 }));
        vec![State { store: Store { value, table, ..Store::default() }, ..empty.clone() }, empty]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, writer) in state.writers.iter().enumerate() {
            match writer {
                Writer::Idle => actions.push(Action::Commit(number)),
                Writer::Committed { .. } => actions.push(Action::Invalidate(number)),
                Writer::Over => {}
            }
        }
        if !state.went_wrong {
            actions.push(Action::Save);
            if let Some(table) = state.store.table {
                actions.push(Action::Lose);
                if table.tag.is_some() {
                    actions.push(Action::Forget);
                }
            }
        }
        if state.saved.is_some() {
            actions.push(Action::Restart);
        }
        if !state.store.table.is_some_and(|table| self.is_of(table, state.run)) {
            actions.push(Action::LeaseOther);
        }
        if state.store.token.is_some() {
            actions.push(Action::ExpireToken);
        }
        let behind = if self.own_run || state.run == 0 { [false].as_slice() } else { &[false, true] };
        for (reader, phase) in state.readers.iter().enumerate() {
            match *phase {
                Reader::Idle => {
                    actions.push(Action::Read(reader));
                    if state.store.value.is_some() {
                        actions.push(Action::LeaseEarly(reader));
                    }
                }
                Reader::Found { .. } => {
                    actions.extend([false, true].map(|again| Action::Judge { reader, again }));
                }
                Reader::Missed { .. } => {
                    actions.extend(behind.iter().map(|behind| Action::Lease { reader, behind: *behind }));
                }
                Reader::Leased { .. } => actions.push(Action::Load(reader)),
                Reader::Loaded { .. } => {
                    actions.extend(behind.iter().map(|behind| Action::Fill { reader, behind: *behind }));
                }
                Reader::Done(_) => {}
            }
            if matches!(phase, Reader::Leased { .. } | Reader::Loaded { .. }) && state.follower == Follower::Idle {
                actions.push(Action::Join(reader));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Commit(number) => {
                state.committed += 1;
                state.writers[number] = Writer::Committed { version: state.committed };
            }
            Action::Invalidate(number) => {
                let Writer::Committed { version } = state.writers[number] else { return None };
                let run = state.run;
                let table = self.table(&mut state, run);
                table.newest += 1;
                table.tag = Some(table.newest);
                state.acknowledged = state.acknowledged.max(version);
                state.writers[number] = Writer::Over;
            }
            Action::Lose => {
                state.store.table = None;
                state.went_wrong = true;
            }
            Action::Forget => {
                let table = state.store.table.as_mut()?;
                let forgotten = table.tag.take()?;
                if self.floor {
                    table.floor = forgotten;
                }
                state.went_wrong = true;
            }
            Action::Save => {
                state.saved = Some(state.store);
                state.went_wrong = true;
            }
            Action::Restart => {
                state.store = state.saved.take()?;
                state.run += 1;
            }
            Action::LeaseOther => {
                let run = state.run;
                self.table(&mut state, run);
            }
            Action::ExpireToken => (state.store.token, state.store.noted) = (None, None),
            Action::Read(number) => {
                let least = state.acknowledged;
                state.readers[number] = match state.store.value {
                    Some((seen, stamp)) => Reader::Found { least, seen, stamp, run: state.run },
                    None => Reader::Missed { least },
                };
            }
            Action::Judge { reader, again } => {
                let Reader::Found { least, seen, stamp, run } = state.readers[reader] else { return None };
                let run = if again { state.run } else { run };
                let believed = !self.same_run_after || run == state.run;
                let holds = !self.reads_judged || (self.holds(&state.store, run, stamp) && believed);
                state.readers[reader] =
                    if holds { Reader::Done(Answer::of(least, seen)) } else { Reader::Missed { least } };
            }
            Action::LeaseEarly(reader) => {
                let (least, run) = (state.acknowledged, state.run);
                state.readers[reader] = self.lease(&mut state, reader, least, run)?;
            }
            Action::Lease { reader, behind } => {
                let Reader::Missed { least } = state.readers[reader] else { return None };
                let run = state.run - u8::from(behind);
                let value = state.store.value;
                let value = value.filter(|(_, stamp)| !self.leases_judged || self.holds(&state.store, run, *stamp));
                state.readers[reader] = match value {
                    Some((seen, _)) => Reader::Done(Answer::of(least, seen)),
                    None => self.lease(&mut state, reader, least, run)?,
                };
            }
            Action::Load(number) => {
                let Reader::Leased { least } = state.readers[number] else { return None };
                state.readers[number] = Reader::Loaded { least, seen: state.committed };
            }
            Action::Fill { reader, behind } => {
                let Reader::Loaded { least, seen } = state.readers[reader] else { return None };
                let run = state.run - u8::from(behind);
                let accepted = self.fill(&mut state, reader, seen, run);
                state.readers[reader] = Reader::Done(Answer::of(least, seen));
                if let Follower::Joined { reader: joined, least, late } = state.follower
                    && joined == reader
                {
                    state.follower = if late && !accepted {
                        // The follower asks again. In this model it then counts as a new follower.
                        Follower::Idle
                    } else {
                        Follower::Done(Answer::of(least, seen))
                    };
                }
            }
            Action::Join(reader) => {
                let late = !matches!(state.readers[reader], Reader::Leased { .. });
                state.follower = Follower::Joined { reader, least: state.acknowledged, late };
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(STALE, |_, state| {
                !state.readers.contains(&Reader::Done(Answer::Old)) && state.follower != Follower::Done(Answer::Old)
            }),
            Property::<Self>::sometimes(SEEN, |_, state| {
                state.readers.contains(&Reader::Done(Answer::Good)) && state.store.value.is_some()
            }),
        ]
    }
}

const STALE: &str = "no read is older than an invalidation of its tag";
const SEEN: &str = "a value is served after its tag was invalidated";

#[test]
fn a_value_is_never_older_than_an_invalidation_of_its_tag() {
    assert_eq!(check(ALL, STALE), [SEEN]);
}

#[test]
fn each_defence_of_tags_is_needed() {
    let without = |model: Tags| check(model, STALE).contains(&STALE);
    assert!(without(Tags { noted_before: false, ..ALL }), "what is noted when a load has ended");
    assert!(without(Tags { noted_apart: false, ..ALL }), "what a load notes given to the value that is there");
    assert!(without(Tags { tokens: false, ..ALL }), "fills under what another load noted");
    assert!(without(Tags { fills_judged: false, ..ALL }), "late callers of an outdated load");
    assert!(without(Tags { leases_judged: false, ..ALL }), "an outdated value from the lease script");
    assert!(without(Tags { reads_judged: false, ..ALL }), "reads that do not ask about tags");
    assert!(without(Tags { epochs: false, ..ALL }), "a table that was lost and begun anew");
    assert!(without(Tags { runs: false, ..ALL }), "a table of another run");
    assert!(without(Tags { same_run_after: false, ..ALL }), "an answer from another run");
    assert!(without(Tags { own_run: false, ..ALL }), "scripts that name the run before");
    assert!(without(Tags { floor: false, ..ALL }), "stamps that are forgotten and not raised to");
}
