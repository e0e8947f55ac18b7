use std::time::Duration;

use crate::cache::{
    CacheError,
    flight::{Answer, Outcome},
    store::Lease,
    strict::Intent,
    value::Entry,
};

/// What a lease is requested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A read of one key. It takes a stored value, and while another process loads, it waits and asks again.
    Read,
    /// One of several keys that are loaded together. It asks once. A key that may not be loaded now is left to a read.
    Batch,
    /// A load ahead of time, which no caller waits for. It asks once, and loads only under a lease that it gets at
    /// once. The store has a value for it only if another process loaded one since.
    Refresh,
}

/// What the next step depends on in addition to the reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Passengers with a lower number boarded before the request, and may take the reply.
    pub(super) mark: u64,
    /// Whether the store is known to have missed no invalidation since before the request.
    pub(super) is_trusted: bool,
    /// Whether the value that another process is loading could not be taken from it. A load of several keys waits all
    /// the same, since a warm-up has to store what it loads.
    pub(super) waits_in_vain: bool,
    /// `Some` once the call has waited long enough for loads of other processes. Holds the load time-out, for the
    /// error.
    pub(super) overtime: Option<Duration>,
}

/// What follows from the reply to a request for a lease.
#[derive(Debug)]
pub(crate) enum Step<V> {
    Serve(Entry<V>),
    /// The flight ends with an expired value or an error.
    Land(Outcome<V>),
    Load(Permit<V>),
    /// Another process loads, for this long at most. Then the flight asks again.
    Wait(Duration),
    /// The flight asks again at once, for the lease only, whatever value is stored.
    Insist,
}

/// How a value may be loaded.
#[derive(Debug)]
pub(crate) enum Permit<V> {
    /// Under the lease, so that the value may be stored. With the expired value, if the store still has it.
    Leased(Option<Entry<V>>),
    /// The value is not stored: a writer is committing, or another process is loading a value that this process may not
    /// take. With the intents that are suspiciously old.
    Unstored(Vec<Intent>),
    /// The value is not stored, since the store is away.
    StoreAway,
}

/// Decides what follows from the reply to a request for a lease. No other code does. `expired` returns a value within
/// its grace: the given one, which is from the store, or else that of this process.
pub(super) fn next_step<V>(
    reply: Lease<V>,
    asked: Asked,
    expired: impl FnOnce(Option<Entry<V>>) -> Option<Answer<V>>,
) -> Step<V> {
    let stale_or = |stored, otherwise| match expired(stored) {
        // A later passenger may know of a write that dropped this value.
        Some(answer) => Step::Land(Outcome::Answer(answer, Some(asked.mark))),
        None => otherwise,
    };
    match reply {
        Lease::Hit(entry) if asked.is_trusted => Step::Serve(entry),
        Lease::Hit(_) | Lease::Unreadable => Step::Insist,
        Lease::Granted(stale) => Step::Load(Permit::Leased(stale)),
        Lease::Held(stale) => stale_or(stale, Step::Insist),
        Lease::Failing(retry_after) => stale_or(None, Step::Land(Outcome::Failed(CacheError::HeldOff { retry_after }))),
        // Otherwise the processes would load one after the other.
        Lease::Wait(_) if asked.waits_in_vain => Step::Load(Permit::Unstored(Vec::new())),
        Lease::Wait(left) => match asked.overtime {
            None => Step::Wait(left),
            Some(limit) => stale_or(None, Step::Land(Outcome::Failed(CacheError::Timeout(limit)))),
        },
        Lease::Bypass(overdue) => Step::Load(Permit::Unstored(overdue)),
        Lease::Down => Step::Load(Permit::StoreAway),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Source, flight::Answer};

    const LEFT: Duration = Duration::from_millis(70);
    const LIMIT: Duration = Duration::from_secs(2);
    const ASKED: Asked = Asked { mark: 3, is_trusted: true, waits_in_vain: false, overtime: None };
    const OVERTIME: Asked = Asked { overtime: Some(LIMIT), ..ASKED };

    /// A value that the test tells apart by its version.
    fn entry(version: u64) -> Entry<()> {
        Entry { version: Some(version), ..Entry::new(None, 0) }
    }

    /// The next step as text. `here` is the version of this process's expired value.
    fn step(reply: Lease<()>, asked: Asked, here: Option<u64>) -> String {
        let expired = |stored: Option<Entry<()>>| {
            stored.or_else(|| here.map(entry)).map(|entry| Answer::from_entry(entry, Source::Redis, false))
        };
        match next_step(reply, asked, expired) {
            Step::Serve(entry) => format!("serve {:?}", entry.version),
            Step::Land(Outcome::Answer(answer, before)) => format!("land {:?} before {before:?}", answer.entry.version),
            Step::Land(Outcome::Failed(CacheError::HeldOff { retry_after })) => format!("held off {retry_after:?}"),
            Step::Land(Outcome::Failed(CacheError::Timeout(limit))) => format!("time-out {limit:?}"),
            Step::Land(outcome) => format!("{outcome:?}"),
            Step::Load(Permit::Leased(stale)) => format!("load, expired {:?}", stale.map(|stale| stale.version)),
            Step::Load(Permit::Unstored(overdue)) => format!("load unstored, {} overdue", overdue.len()),
            Step::Load(Permit::StoreAway) => "load, store away".to_owned(),
            Step::Wait(left) => format!("wait {left:?}"),
            Step::Insist => "insist".to_owned(),
        }
    }

    #[test]
    fn a_reply_means_what_the_table_says() {
        let overdue = || vec![Intent { id: "1".into(), xid: "7".into() }];
        let table: [(fn() -> Lease<()>, &str); 7] = [
            (|| Lease::Hit(entry(1)), "serve Some(1)"),
            (|| Lease::Unreadable, "insist"),
            (|| Lease::Wait(LEFT), "wait 70ms"),
            (|| Lease::Granted(Some(entry(1))), "load, expired Some(Some(1))"),
            (|| Lease::Held(Some(entry(1))), "land Some(1) before Some(3)"),
            (|| Lease::Failing(LEFT), "held off 70ms"),
            (|| Lease::Down, "load, store away"),
        ];
        for (reply, means) in table {
            assert_eq!(step(reply(), ASKED, None), means, "{:?}", reply());
        }
        assert_eq!(step(Lease::Bypass(overdue()), ASKED, Some(2)), "load unstored, 1 overdue");
    }

    #[test]
    fn while_the_store_is_not_trusted_no_hit_is_served_and_no_load_is_waited_for() {
        let unsure = Asked { is_trusted: false, ..ASKED };
        assert_eq!(step(Lease::Hit(entry(1)), unsure, Some(2)), "insist");
        assert_eq!(step(Lease::Wait(LEFT), unsure, None), "wait 70ms");
        let in_vain = Asked { waits_in_vain: true, ..unsure };
        assert_eq!(step(Lease::Wait(LEFT), in_vain, None), "load unstored, 0 overdue");
    }

    #[test]
    fn the_wait_for_another_ends_once_it_is_overtime() {
        assert_eq!(step(Lease::Wait(LEFT), OVERTIME, None), "time-out 2s");
    }

    #[test]
    fn an_expired_value_of_this_process_takes_the_place_of_an_error() {
        for (reply, asked) in [(Lease::Held(None), ASKED), (Lease::Failing(LEFT), ASKED), (Lease::Wait(LEFT), OVERTIME)]
        {
            assert_eq!(step(reply, asked, Some(2)), "land Some(2) before Some(3)");
        }
        assert_eq!(step(Lease::Held(None), ASKED, None), "insist");
    }
}
