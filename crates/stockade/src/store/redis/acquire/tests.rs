//! Every transition of an attempt, without a server.

use std::{sync::Arc, time::Duration};

use super::state::{Answer, Asking, Entered, Entering, Origin, Reply, State, Terms, Waiting, Wakeup};
use crate::{
    clock::Instant,
    resource::Key,
    store::{
        LockError, Mode, Owner, Ownership, Token, Unavailable,
        redis::{
            acquire::{
                entry::Entry,
                mailbox::{Grant, Mail},
                place::QueuePlace,
            },
            commands::replies::Acquired,
        },
    },
};

const TEN: Duration = Duration::from_secs(10);
const WAITS: Terms = Terms { waits: true, permits: 3, lease: TEN };
const TRIES_ONCE: Terms = Terms { waits: false, ..WAITS };
const FIRST: Asking = Asking { first: true, scripts_lost: false, stale: false };
const LATER: Asking = Asking { first: false, ..FIRST };

/// The name of a state in the tables below.
fn word(state: State) -> String {
    let doubt = |waiting: Waiting| if waiting.trouble.is_some() { " in doubt" } else { "" };
    match state {
        State::Registering(registering) => format!("{registering:?}"),
        State::Asking(_) => "asks".to_owned(),
        State::Entering(_) => "enters".to_owned(),
        State::Waiting(waiting) => format!("waits{}", doubt(waiting)),
        State::Claiming(waiting) => format!("claims{}", doubt(waiting)),
        State::Due(waiting) => format!("is due{}", doubt(waiting)),
        State::Ended(Ok(_)) => "holds".to_owned(),
        State::Ended(Err(error)) => match error {
            LockError::Busy { remaining } => format!("busy for {}", remaining.as_secs()),
            LockError::QueueFull { waiters, position, .. } => format!("{waiters} wait, would be {position}"),
            LockError::Capacity { asked, present } => format!("{present} permits, not {asked}"),
            LockError::Unavailable { reason, .. } => format!("{reason:?}"),
            LockError::Timeout { .. } => "timed out".to_owned(),
            LockError::ShuttingDown => "shut down".to_owned(),
            other => panic!("{other:?}"),
        },
    }
}

fn token() -> Token {
    Token::new(7).unwrap()
}

fn key() -> Key {
    Key::new("test", "waited").unwrap()
}

fn lost() -> LockError {
    LockError::Unavailable { reason: Unavailable::Disconnected, retry_after: TEN }
}

fn timeout() -> LockError {
    LockError::Timeout { key: key(), waited: TEN, remaining: TEN, position: None }
}

fn in_doubt() -> Waiting {
    Waiting { trouble: Some(lost()) }
}

fn free() -> Acquired {
    Acquired::Free { token: token() }
}

fn granted() -> Acquired {
    Acquired::Granted { token: token(), x: 9_000_000, now: 4_000_000, gone: false, wanted: true }
}

fn queued() -> Acquired {
    Acquired::Queued { seq: 5, remaining: TEN, now: 1, position: 2, gone: false }
}

fn busy(yields: bool) -> Acquired {
    Acquired::Busy { remaining: TEN, now: 1, yields }
}

fn reply(reply: Acquired) -> Answer {
    told(reply, true)
}

fn told(reply: Acquired, hears: bool) -> Answer {
    Answer::Reply(Reply { reply, sent: Instant::now(), hears })
}

fn stale() -> Answer {
    reply(Acquired::Stale { now: 1 })
}

fn entry(until: Duration) -> Entry {
    let until = Instant::now() + until;
    Entry { token: token(), until, handed_off: None, wanted: false }
}

fn ownership() -> Arc<Ownership> {
    let owner = Owner::new("some-process-xyz.00000000000".to_owned());
    Arc::new(Ownership::new(key(), owner, Mode::Write, token(), TEN, Instant::now() + TEN, None))
}

#[test]
fn registering_leads_to_the_first_question_or_to_the_end() {
    assert_eq!(State::registered(Ok(())), FIRST);
    assert_eq!(word(State::registered(Err(LockError::ShuttingDown))), "shut down");
}

impl PartialEq<Asking> for State {
    fn eq(&self, other: &Asking) -> bool {
        matches!(self, Self::Asking(asking) if asking == other)
    }
}

#[test]
fn each_answer_leads_to_its_state() {
    let full = || reply(Acquired::Full { waiters: 8, remaining: TEN, now: 1 });
    let capacity = || reply(Acquired::Capacity { present: 2, now: 1 });
    // The next state of an attempt that does not wait, after a waiter's first question, and after a later question.
    let table: &[(&str, &dyn Fn() -> Answer, [&str; 3])] = &[
        ("free", &|| reply(free()), ["enters"; 3]),
        ("granted", &|| reply(granted()), ["enters"; 3]),
        ("queued", &|| reply(queued()), ["waits"; 3]),
        ("queued, no messages", &|| told(queued(), false), ["asks"; 3]),
        ("busy", &|| reply(busy(false)), ["busy for 10", "asks", "asks"]),
        ("busy, all yield", &|| reply(busy(true)), ["Recalled", "asks", "asks"]),
        ("full", &full, ["8 wait, would be 9"; 3]),
        ("capacity", &capacity, ["2 permits, not 3"; 3]),
        ("stale", &stale, ["asks"; 3]),
        ("scripts lost", &|| Answer::ScriptsLost(lost()), ["asks"; 3]),
        ("redirected", &|| Answer::Redirected, ["asks"; 3]),
        ("refused", &|| Answer::Refused(LockError::ShuttingDown), ["shut down"; 3]),
        ("unknown", &|| Answer::Unknown(lost()), ["Disconnected", "Disconnected", "waits in doubt"]),
    ];
    for (what, answer, expected) in table {
        for ((asking, terms), expected) in
            [(FIRST, TRIES_ONCE), (FIRST, WAITS), (LATER, WAITS)].into_iter().zip(expected)
        {
            let next = asking.next(answer(), terms, &mut QueuePlace::default());
            if let State::Asking(again) = next {
                assert_eq!(again.first, asking.first, "{what}");
            }
            assert_eq!(word(next), *expected, "{what}: {asking:?} {terms:?}");
        }
    }
}

#[test]
fn a_question_is_repeated_once_for_lost_scripts_and_once_as_too_old() {
    for (asking, then) in [(FIRST, ["Disconnected", "Stale"]), (LATER, ["waits in doubt"; 2])] {
        let place = &mut QueuePlace::default();
        let State::Asking(once) = asking.next(Answer::ScriptsLost(lost()), WAITS, place) else { panic!() };
        let State::Asking(twice) = once.next(stale(), WAITS, place) else { panic!() };
        // A redirection does not make the attempt forget its earlier reasons to ask again.
        let State::Asking(twice) = twice.next(Answer::Redirected, WAITS, place) else { panic!() };
        assert_eq!(word(twice.next(Answer::ScriptsLost(lost()), WAITS, place)), then[0]);
        assert_eq!(word(twice.next(stale(), WAITS, place)), then[1]);
    }
}

#[test]
fn an_answer_that_queues_says_the_place() {
    let mut place = QueuePlace::default();
    let sent = Instant::now();
    let answer = Answer::Reply(Reply { reply: queued(), sent, hears: false });
    FIRST.next(answer, WAITS, &mut place);
    assert_eq!((place.seq, place.position, place.remaining), (5, Some(2), TEN));
    assert_eq!(place.confirmed, Some(sent), "also when the attempt asks again");
}

#[test]
fn a_lease_is_believed_in_from_the_sending_on() {
    let sent = Instant::now();
    for (reply, most, wanted) in [(free(), TEN, false), (granted(), Duration::from_secs(5), true)] {
        let answer = Answer::Reply(Reply { reply, sent, hears: true });
        let State::Entering(Entering { entry, .. }) = FIRST.next(answer, WAITS, &mut QueuePlace::default()) else {
            panic!()
        };
        assert!(entry.until < sent + most && entry.until > sent + most * 98 / 100, "{entry:?}");
        assert_eq!((entry.wanted, entry.handed_off), (wanted, None));
    }
}

#[test]
fn each_outcome_of_a_grant_leads_to_its_state() {
    let first = || Origin::Reply { first: true };
    let later = || Origin::Reply { first: false };
    let pushed = || Origin::Message { trouble: None };
    let troubled = || Origin::Message { trouble: Some(lost()) };
    let table: &[(&dyn Fn() -> Entered, [&str; 5])] = &[
        (&|| Entered::Held(ownership()), ["holds"; 5]),
        (&|| Entered::Gone, ["busy for 0", "waits", "waits", "is due", "is due in doubt"]),
        (
            &|| Entered::Unknown(lost()),
            ["Disconnected", "Disconnected", "waits in doubt", "is due in doubt", "is due in doubt"],
        ),
    ];
    for (entered, expected) in table {
        let cases = [(first(), TRIES_ONCE), (first(), WAITS), (later(), WAITS), (pushed(), WAITS), (troubled(), WAITS)];
        for ((origin, terms), expected) in cases.into_iter().zip(expected) {
            let (entering, entered) = (Entering { entry: entry(TEN), origin }, entered());
            let what = format!("{entered:?} {:?} {terms:?}", entering.origin);
            assert_eq!(word(entering.next(entered, terms, &mut QueuePlace::default())), *expected, "{what}");
        }
    }
}

#[test]
fn a_grant_that_is_gone_leaves_the_place_it_was_granted_at() {
    for (before, after) in [(0, 7), (5, 5)] {
        let mut place = QueuePlace { seq: before, ..QueuePlace::default() };
        let origin = Origin::Message { trouble: None };
        Entering { entry: entry(TEN), origin }.next(Entered::Gone, WAITS, &mut place);
        assert_eq!(place.seq, after);
    }
}

#[test]
fn each_wakeup_leads_to_its_state() {
    let grant = || Grant { token: token(), now: 1, until: Instant::now() + TEN, handed_off: TEN };
    // The next state without and in doubt, and whether the place in the queue is then known to be gone.
    let table: &[(&dyn Fn() -> Wakeup, [&str; 2], bool)] = &[
        (&|| Wakeup::Mail(Mail::Closing), ["shut down"; 2], false),
        (&|| Wakeup::Mail(Mail::Granted(grant())), ["enters"; 2], true),
        (&|| Wakeup::Mail(Mail::Dropped), ["is due", "is due in doubt"], true),
        (&|| Wakeup::Mail(Mail::AskAgain), ["is due", "is due in doubt"], false),
        (&|| Wakeup::Mail(Mail::AskForAll), ["claims", "claims in doubt"], false),
        (&|| Wakeup::TimeUp, ["is due", "is due in doubt"], false),
        (&|| Wakeup::Alarm { refresh: false }, ["claims", "is due in doubt"], false),
        (&|| Wakeup::Alarm { refresh: true }, ["is due", "is due in doubt"], false),
    ];
    for (wakeup, expected, gone) in table {
        for (waiting, expected) in [Waiting::default(), in_doubt()].into_iter().zip(expected) {
            let mut place = QueuePlace { confirmed: Some(Instant::now()), ..QueuePlace::default() };
            let wakeup = wakeup();
            let what = format!("{wakeup:?} {waiting:?}");
            assert_eq!(word(waiting.next(wakeup, &mut place)), *expected, "{what}");
            assert_eq!(place.confirmed.is_none(), *gone, "{what}");
        }
    }
}

#[test]
fn a_grant_by_a_message_may_be_wanted() {
    let grant = Grant { token: token(), now: 1, until: Instant::now() + TEN, handed_off: TEN };
    let wakeup = Wakeup::Mail(Mail::Granted(grant));
    let State::Entering(entering) = in_doubt().next(wakeup, &mut QueuePlace::default()) else { panic!() };
    let Entry { wanted, handed_off, .. } = entering.entry;
    assert_eq!((wanted, handed_off), (true, Some(TEN)));
    assert!(matches!(entering.origin, Origin::Message { trouble: Some(_) }));
}

#[test]
fn a_waiter_asks_if_no_other_does_and_there_is_time() {
    assert_eq!(word(in_doubt().claimed(true)), "is due in doubt");
    assert_eq!(word(Waiting::default().claimed(false)), "waits");
    assert_eq!(in_doubt().in_time(None), LATER);
    assert_eq!(word(Waiting::default().in_time(Some(timeout()))), "timed out");
    assert_eq!(word(in_doubt().in_time(Some(timeout()))), "Disconnected", "the last trouble says more");
}
