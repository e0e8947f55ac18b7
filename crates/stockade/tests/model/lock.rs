//! Three clients, one lock and a clock of a few ticks. Messages and commands may take any time.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::check;

const CLIENTS: usize = 3;
/// The length of a lease.
const LEASE: u8 = 2;
/// The age from which a command is refused.
const STALE: u8 = 2;
const END: u8 = 6;

/// The defences against two clients that believe they hold the lock, and against a client that gave up and holds it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a defence that can be switched off")]
struct Lock {
    /// A confirmed lease counts from the sending of the request, not from the arrival of the answer.
    counts_from_sending: bool,
    /// A pushed grant is believed only until its end on the server's clock, however late it is read.
    maps_the_servers_clock: bool,
    /// The server refuses commands that come too late.
    refuses_late_commands: bool,
    /// If the connection of an attempt is gone, its cancel is repeated when a late copy of the attempt is sure to be
    /// refused.
    repeats_the_cancel: bool,
    /// A release frees the lock only if its client is the owner.
    release_checks_the_owner: bool,
}

const SAFE: Lock = Lock {
    counts_from_sending: true,
    maps_the_servers_clock: true,
    refuses_late_commands: true,
    repeats_the_cancel: true,
    release_checks_the_owner: true,
};

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Client {
    Idle,
    /// The client has asked at this time, and has no answer.
    Asking {
        sent: u8,
    },
    Queued,
    /// The client believes that it holds the lock until then.
    Holding {
        until: u8,
    },
    /// The client gave up, and its cancel is on its way. `sent`: when the attempt was sent.
    GivenUp {
        sent: u8,
    },
    Done,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    /// A command to the server, stamped with the time of its sending.
    Acquire {
        client: usize,
        stamp: u8,
    },
    Release {
        client: usize,
    },
    /// Undoes an attempt. `again`: it is sent once a late copy of the attempt would be refused.
    Cancel {
        client: usize,
        again: bool,
    },
    /// Tells a client that it has the lock since `now` until `x`.
    Granted {
        client: usize,
        now: u8,
        x: u8,
    },
    Pushed {
        client: usize,
        now: u8,
        x: u8,
    },
    Queued {
        client: usize,
    },
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct State {
    now: u8,
    /// The holder, and the end of its lease.
    holder: Option<(usize, u8)>,
    queue: Vec<usize>,
    clients: [Client; CLIENTS],
    wire: BTreeSet<Message>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    Ask(usize),
    GiveUp(usize),
    GiveBack(usize),
    Deliver(Message),
}

impl State {
    fn grant(&mut self) {
        if self.holder.is_none() && !self.queue.is_empty() {
            let next = self.queue.remove(0);
            let x = self.now + LEASE;
            self.holder = Some((next, x));
            self.wire.insert(Message::Pushed { client: next, now: self.now, x });
        }
    }

    fn expire(&mut self) {
        if self.holder.is_some_and(|(_, x)| x <= self.now) {
            self.holder = None;
        }
    }

    fn leave(&mut self, client: usize, any: bool) {
        if self.holder.is_some_and(|(holder, _)| any || holder == client) {
            self.holder = None;
        }
        self.queue.retain(|waiter| *waiter != client);
    }
}

impl Lock {
    fn deliver(&self, state: &mut State, message: Message) -> Option<()> {
        state.wire.remove(&message);
        let now = state.now;
        match message {
            Message::Acquire { client, stamp } => {
                if self.refuses_late_commands && now - stamp > STALE {
                    return Some(());
                }
                state.expire();
                state.grant();
                if state.holder.is_none() && state.queue.is_empty() {
                    state.holder = Some((client, now + LEASE));
                    state.wire.insert(Message::Granted { client, now, x: now + LEASE });
                } else {
                    state.queue.push(client);
                    state.wire.insert(Message::Queued { client });
                }
            }
            Message::Release { client } => {
                state.leave(client, !self.release_checks_the_owner);
                state.expire();
                state.grant();
            }
            Message::Cancel { client, again } => {
                let Client::GivenUp { sent } = state.clients[client] else { return Some(()) };
                if again && now <= sent + STALE {
                    return None;
                }
                state.leave(client, false);
                state.expire();
                state.grant();
                if again || !self.repeats_the_cancel {
                    state.clients[client] = Client::Done;
                } else {
                    state.wire.insert(Message::Cancel { client, again: true });
                }
            }
            Message::Granted { client, now: _, x: _ } => {
                if let Client::Asking { sent } = state.clients[client] {
                    let from = if self.counts_from_sending { sent } else { now };
                    state.clients[client] = Client::Holding { until: from + LEASE };
                }
            }
            Message::Pushed { client, now: granted, x } => {
                if matches!(state.clients[client], Client::Asking { .. } | Client::Queued) {
                    let until = if self.maps_the_servers_clock { x } else { now + (x - granted) };
                    state.clients[client] = Client::Holding { until };
                }
            }
            Message::Queued { client } => {
                if matches!(state.clients[client], Client::Asking { .. }) {
                    state.clients[client] = Client::Queued;
                }
            }
        }
        Some(())
    }
}

impl Model for Lock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (clients, wire) = ([Client::Idle; CLIENTS], BTreeSet::new());
        vec![State { now: 0, holder: None, queue: Vec::new(), clients, wire }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < END {
            actions.push(Action::Tick);
        }
        for (number, client) in state.clients.iter().enumerate() {
            match client {
                // Clients are alike, so it is enough that they begin in order.
                Client::Idle if number == 0 || state.clients[number - 1] != Client::Idle => {
                    actions.push(Action::Ask(number));
                }
                // Only the first client gives up, so that the model stays small.
                Client::Asking { .. } if number == 0 => actions.push(Action::GiveUp(number)),
                Client::Holding { .. } => actions.push(Action::GiveBack(number)),
                _ => {}
            }
        }
        actions.extend(state.wire.iter().copied().map(Action::Deliver));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let now = state.now;
        match action {
            Action::Tick => state.now += 1,
            Action::Ask(client) => {
                state.clients[client] = Client::Asking { sent: now };
                state.wire.insert(Message::Acquire { client, stamp: now });
            }
            Action::GiveUp(client) => {
                let Client::Asking { sent } = state.clients[client] else { return None };
                state.clients[client] = Client::GivenUp { sent };
                // The cancel is sent on another connection, so it may overtake the attempt.
                state.wire.insert(Message::Cancel { client, again: false });
            }
            Action::GiveBack(client) => {
                state.clients[client] = Client::Done;
                state.wire.insert(Message::Release { client });
            }
            Action::Deliver(message) => self.deliver(&mut state, message)?,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(TWO, |_, state| {
                let believes = |client: &&Client| matches!(client, Client::Holding { until } if *until > state.now);
                state.clients.iter().filter(believes).count() <= 1
            }),
            Property::<Self>::always(ORPHAN, |_, state| {
                let undone = |client: usize| {
                    client == 0
                        && state.clients[client] == Client::Done
                        && !state.wire.contains(&Message::Release { client })
                };
                !state.holder.is_some_and(|(holder, x)| undone(holder) && x > state.now)
            }),
            Property::<Self>::sometimes(HANDED, |_, state| {
                state.clients[1] == Client::Done
                    && matches!(state.clients[2], Client::Holding { until } if until > state.now)
            }),
        ]
    }
}

const TWO: &str = "at most one believes to hold it";
const ORPHAN: &str = "who gave up and was told so holds nothing";
const HANDED: &str = "it is handed on";

#[test]
fn at_most_one_client_believes_that_it_holds_the_lock() {
    assert_eq!(check(SAFE, TWO), [HANDED]);
}

#[test]
fn each_defence_of_the_lock_is_needed() {
    let without = |model: Lock, sought| check(model, sought).contains(&sought);
    assert!(without(Lock { counts_from_sending: false, ..SAFE }, TWO), "deadlines from the reply");
    assert!(without(Lock { maps_the_servers_clock: false, ..SAFE }, TWO), "deadlines from the push");
    assert!(without(Lock { refuses_late_commands: false, ..SAFE }, ORPHAN), "late commands");
    assert!(without(Lock { repeats_the_cancel: false, ..SAFE }, ORPHAN), "one cancel");
    assert!(without(Lock { release_checks_the_owner: false, ..SAFE }, TWO), "a release of another's lock");
}
