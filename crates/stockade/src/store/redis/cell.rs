use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{clock::Instant, store::Token};

/// A grant as it came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) token: Token,
    /// Server time at which it was made.
    pub(super) now: u64,
    /// Until when it may be believed in.
    pub(super) until: Instant,
    /// How long after it was made it came in.
    pub(super) handed_off: Duration,
}

/// Why a waiter has to do something.
#[derive(Debug)]
pub(super) enum Event {
    Granted(Grant),
    /// It stands in the queue no more, or can't know: ask again, with the same place.
    AskAgain,
    /// The store shuts down.
    Closing,
}

/// Where the inbox and the link leave what concerns one waiter.
#[derive(Debug, Default)]
pub(super) struct Cell {
    mail: Mutex<Mail>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Mail {
    grant: Option<Grant>,
    /// Server time at which it was removed from the queue, or its grant ended.
    dropped: Option<u64>,
    /// Server time of the last reply: older messages are overtaken by it.
    answered: u64,
    reconnected: bool,
    closing: bool,
}

impl Cell {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, change: impl FnOnce(&mut Mail)) {
        change(&mut self.mail());
        self.wake.notify_one();
    }

    pub(super) fn granted(&self, grant: Grant) {
        self.post(|mail| mail.grant = Some(grant));
    }

    pub(super) fn dropped(&self, now: u64) {
        self.post(|mail| mail.dropped = mail.dropped.max(Some(now)));
    }

    pub(super) fn reconnected(&self) {
        self.post(|mail| mail.reconnected = true);
    }

    pub(super) fn closing(&self) {
        self.post(|mail| mail.closing = true);
    }

    /// A reply made at server time `now` was received. One that was made earlier than the last, by the server's clock, shows
    /// that the clock was set back; messages from then on would otherwise count for nothing until it has caught up.
    pub(super) fn answered(&self, now: u64) {
        self.mail().answered = now;
    }

    /// About to ask another server, whose clock is another one.
    pub(super) fn elsewhere(&self) {
        let mut mail = self.mail();
        (mail.grant, mail.dropped, mail.answered) = (None, None, 0);
    }

    /// About to ask: what made it necessary is dealt with.
    pub(super) fn asking(&self) {
        self.mail().reconnected = false;
    }

    /// The next thing to do, if any.
    pub(super) fn take(&self) -> Option<Event> {
        let mut mail = self.mail();
        let dropped = mail.dropped.take().filter(|now| *now > mail.answered);
        let grant =
            mail.grant.take().filter(|grant| grant.now >= mail.answered && dropped.is_none_or(|now| now < grant.now));
        if let Some(grant) = grant {
            Some(Event::Granted(grant))
        } else if mail.closing {
            Some(Event::Closing)
        } else {
            (dropped.is_some() || std::mem::take(&mut mail.reconnected)).then_some(Event::AskAgain)
        }
    }

    pub(super) async fn wait(&self) {
        self.wake.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(now: u64) -> Grant {
        Grant { token: Token::new(now).unwrap(), now, until: Instant::now(), handed_off: Duration::ZERO }
    }

    #[test]
    fn what_is_older_than_the_last_reply_counts_for_nothing() {
        let cell = Cell::default();
        cell.granted(grant(10));
        cell.dropped(11);
        cell.answered(12);
        assert!(cell.take().is_none());
        cell.dropped(13);
        assert!(matches!(cell.take(), Some(Event::AskAgain)));
        assert!(cell.take().is_none());
    }

    #[test]
    fn a_grant_after_the_clock_was_set_back_counts() {
        let cell = Cell::default();
        cell.answered(1000);
        cell.answered(10);
        cell.granted(grant(11));
        assert!(matches!(cell.take(), Some(Event::Granted(_))));
    }

    #[test]
    fn a_grant_that_ended_since_is_none() {
        let cell = Cell::default();
        cell.answered(5);
        cell.granted(grant(10));
        cell.dropped(20);
        assert!(matches!(cell.take(), Some(Event::AskAgain)));
        cell.dropped(21);
        cell.granted(grant(22));
        assert!(matches!(cell.take(), Some(Event::Granted(_))));
    }
}
