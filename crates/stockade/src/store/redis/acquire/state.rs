//! The states of an attempt, and every transition between them. Nothing here waits or talks to Redis.
//!
//! The module above says what each state means. [`run`](super::run) does what a state asks for, and gives the outcome
//! to the `next` of that state.

use std::{sync::Arc, time::Duration};

use super::{entry::Entry, mailbox::Mail, place::QueuePlace};
use crate::{
    clock::Instant,
    store::{LockError, Ownership, Unavailable, redis::commands::replies::Acquired},
};

/// Where an attempt stands.
#[derive(Debug)]
pub(super) enum State {
    Registering(Registering),
    Asking(Asking),
    Entering(Entering),
    Waiting(Waiting),
    Claiming(Waiting),
    Due(Waiting),
    Ended(Result<Arc<Ownership>, LockError>),
}

/// What the transitions depend on in addition to state and outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Whether the attempt may queue.
    pub(super) waits: bool,
    pub(super) permits: u32,
    pub(super) lease: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registering {
    New,
    /// The attempt does not wait, but all holders were told to give way. So it waits for a moment.
    Recalled,
}

impl State {
    /// What registering leads to.
    pub(super) fn registered(registered: Result<(), LockError>) -> Self {
        match registered {
            Ok(()) => Self::Asking(Asking::new(true)),
            Err(error) => Self::Ended(Err(error)),
        }
    }
}

/// One question to the server, which may take several commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asking {
    /// Whether the attempt has had no answer yet that lets it wait.
    pub(super) first: bool,
    /// Whether the server had lost the scripts. They have been loaded again.
    pub(super) scripts_lost: bool,
    /// Whether the server refused a command as too old.
    pub(super) stale: bool,
}

/// What became of one command.
#[derive(Debug)]
pub(super) enum Answer {
    Reply(Reply),
    /// Not executed: the server had lost the scripts.
    ScriptsLost(LockError),
    /// Not executed, or lost with its connection. Another server or another connection is there now.
    Redirected,
    /// The attempt can't go on.
    Refused(LockError),
    /// The command was perhaps executed.
    Unknown(LockError),
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) reply: Acquired,
    pub(super) sent: Instant,
    /// Whether a message to this attempt would arrive.
    pub(super) hears: bool,
}

impl Asking {
    fn new(first: bool) -> Self {
        Self { first, scripts_lost: false, stale: false }
    }

    pub(super) fn next(self, answer: Answer, terms: Terms, place: &mut QueuePlace) -> State {
        match answer {
            Answer::Reply(reply) => self.replied(reply, terms, place),
            Answer::ScriptsLost(_) if !self.scripts_lost => Self { scripts_lost: true, ..self }.again(),
            Answer::Redirected => self.again(),
            Answer::Refused(error) => State::Ended(Err(error)),
            Answer::ScriptsLost(error) | Answer::Unknown(error) => unknown(self.first, error),
        }
    }

    fn replied(self, Reply { reply, sent, hears }: Reply, terms: Terms, place: &mut QueuePlace) -> State {
        let enter = |entry| State::Entering(Entering { entry, origin: Origin::Reply { first: self.first } });
        match reply {
            Acquired::Free { token } => enter(Entry::free(token, sent, terms.lease)),
            Acquired::Granted { token, x, now, wanted, .. } => enter(Entry::granted(token, sent, (now, x), wanted)),
            Acquired::Queued { seq, remaining, position, .. } => {
                *place = QueuePlace { seq, confirmed: Some(sent), remaining, position: Some(position) };
                // The connection that messages come on changed in between.
                if hears { Waiting::untroubled() } else { self.again() }
            }
            // The command was not to queue, since no message would have reached the attempt.
            Acquired::Busy { .. } if terms.waits => self.again(),
            Acquired::Busy { yields: true, .. } => State::Registering(Registering::Recalled),
            Acquired::Busy { remaining, .. } => State::Ended(Err(LockError::Busy { remaining })),
            Acquired::Full { waiters, remaining, .. } => {
                let position = waiters.saturating_add(1);
                State::Ended(Err(LockError::QueueFull { waiters, position, remaining }))
            }
            Acquired::Capacity { present, .. } => {
                State::Ended(Err(LockError::Capacity { asked: terms.permits, present }))
            }
            Acquired::Stale { .. } if !self.stale => Self { stale: true, ..self }.again(),
            Acquired::Stale { .. } => unknown(self.first, not_now(Unavailable::Stale)),
        }
    }

    fn again(self) -> State {
        State::Asking(self)
    }
}

/// A grant that the attempt is about to enter with.
#[derive(Debug)]
pub(super) struct Entering {
    pub(super) entry: Entry,
    pub(super) origin: Origin,
}

/// How a grant came.
#[derive(Debug)]
pub(super) enum Origin {
    /// In the reply to a question.
    Reply { first: bool },
    /// By a message, to a waiter whose last question had this trouble.
    Message { trouble: Option<LockError> },
}

/// What became of a grant.
#[derive(Debug)]
pub(super) enum Entered {
    Held(Arc<Ownership>),
    /// The lease was over before it could be used. The mailbox says so, too.
    Gone,
    /// The grant could not be confirmed.
    Unknown(LockError),
}

impl Entering {
    /// Whether the attempt has not waited yet.
    pub(super) fn is_first(&self) -> bool {
        matches!(self.origin, Origin::Reply { first: true })
    }

    pub(super) fn next(self, entered: Entered, terms: Terms, place: &mut QueuePlace) -> State {
        let token = self.entry.token;
        match (entered, self.origin) {
            (Entered::Held(ownership), _) => State::Ended(Ok(ownership)),
            (Entered::Gone, origin) => {
                // An attempt without a place asks for the place that it was granted at.
                if place.seq == 0 {
                    place.seq = token.get();
                }
                match origin {
                    Origin::Message { trouble } => State::Due(Waiting { trouble }),
                    Origin::Reply { .. } if terms.waits => Waiting::untroubled(),
                    Origin::Reply { .. } => State::Ended(Err(LockError::Busy { remaining: Duration::ZERO })),
                }
            }
            (Entered::Unknown(error), Origin::Reply { first }) => unknown(first, error),
            (Entered::Unknown(error), Origin::Message { .. }) => State::Due(Waiting { trouble: Some(error) }),
        }
    }
}

/// A waiter: in the queue, as far as it knows.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The error that kept the last question from being answered. The waiter may have no place then. No other waiter of
    /// its process would find that out.
    pub(super) trouble: Option<LockError>,
}

/// Why a waiter stops resting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wakeup {
    Mail(Mail),
    /// The wait is over, as far as the waiter knows.
    TimeUp,
    /// It is time to see whether the queue goes on. `refresh`: an unbounded wait has to be entered again.
    Alarm {
        refresh: bool,
    },
}

impl Waiting {
    fn untroubled() -> State {
        State::Waiting(Self { trouble: None })
    }

    pub(super) fn next(self, wakeup: Wakeup, place: &mut QueuePlace) -> State {
        match wakeup {
            Wakeup::Mail(Mail::Closing) => State::Ended(Err(LockError::ShuttingDown)),
            Wakeup::Mail(Mail::Granted(grant)) => {
                place.confirmed = None;
                let origin = Origin::Message { trouble: self.trouble };
                State::Entering(Entering { entry: Entry::handed_over(grant), origin })
            }
            Wakeup::Mail(Mail::Dropped) => {
                place.confirmed = None;
                State::Due(self)
            }
            Wakeup::Mail(Mail::AskAgain) | Wakeup::TimeUp => State::Due(self),
            Wakeup::Alarm { refresh } if refresh || self.trouble.is_some() => State::Due(self),
            Wakeup::Mail(Mail::AskForAll) | Wakeup::Alarm { .. } => State::Claiming(self),
        }
    }

    /// `granted`: no waiter of this process has asked for a while, and this one may.
    pub(super) fn claimed(self, granted: bool) -> State {
        if granted { State::Due(self) } else { State::Waiting(self) }
    }

    /// `over`: the error of a wait that has come to its end.
    pub(super) fn in_time(self, over: Option<LockError>) -> State {
        match over {
            None => State::Asking(Asking::new(false)),
            Some(timeout) => State::Ended(Err(self.trouble.unwrap_or(timeout))),
        }
    }
}

/// The server may have executed the question or not. An attempt that was never told to wait ends with the error. A
/// waiter goes on, in doubt about its place.
fn unknown(first: bool, error: LockError) -> State {
    if first { State::Ended(Err(error)) } else { State::Waiting(Waiting { trouble: Some(error) }) }
}

fn not_now(reason: Unavailable) -> LockError {
    LockError::Unavailable { reason, retry_after: Duration::from_secs(1) }
}
