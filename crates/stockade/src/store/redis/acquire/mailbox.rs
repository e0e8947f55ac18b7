use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    clock::Instant,
    store::{LossReason, Token},
};

/// A grant as it came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    /// Server time at which it was made.
    pub(crate) now: u64,
    /// Until when this process may rely on the grant.
    pub(crate) until: Instant,
    /// The time from the making of the grant to its arrival.
    pub(crate) handed_off: Duration,
}

/// Why a waiter has to do something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mail {
    Granted(Grant),
    /// The waiter was taken out of the queue, or its grant ended, or the waiter can't tell whether the last answer took
    /// that into account. It has to ask again with the same place.
    Dropped,
    /// The waiter can't know whether it stands in the queue. It has to ask again with the same place.
    AskAgain,
    /// One waiter of this resource in this process has to ask now, for all of them.
    AskForAll,
    Closing,
}

/// Where the inbox and the link leave messages for one waiter.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    unread: Mutex<Unread>,
    wake: Notify,
    /// Whether somebody waits for the resource that the waiter was granted.
    wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct Unread {
    grant: Option<Grant>,
    /// Server time at which the waiter was removed from the queue, or its grant ended.
    dropped: Option<u64>,
    /// Server time at which its grant ended, and why.
    ended: Option<(u64, LossReason)>,
    /// Server time at which another waiter found that the queue had lost this process' places.
    displaced: Option<u64>,
    /// Server time of the last reply, which supersedes older messages.
    answered: u64,
    reconnected: bool,
    ask_for_all: bool,
    closing: bool,
}

impl Mailbox {
    fn post(&self, change: impl FnOnce(&mut Unread)) {
        change(&mut self.unread.lock());
        self.wake.notify_one();
    }

    pub(crate) fn granted(&self, grant: Grant) {
        self.post(|unread| unread.grant = Some(grant));
    }

    pub(crate) fn dropped(&self, now: u64) {
        self.post(|unread| unread.dropped = unread.dropped.max(Some(now)));
    }

    /// Records that the grant of this waiter ended. Returns whether the message is newer than the last reply.
    pub(crate) fn ended(&self, now: u64, reason: LossReason) -> bool {
        let mut is_news = false;
        self.post(|unread| {
            unread.dropped = unread.dropped.max(Some(now));
            unread.ended = Some((now, reason));
            is_news = now > unread.answered;
        });
        is_news
    }

    /// Why the grant in the last reply has ended, if a newer message said so.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let unread = self.unread.lock();
        unread.ended.filter(|(now, _)| *now > unread.answered).map(|(_, reason)| reason)
    }

    pub(crate) fn displaced(&self, now: u64) {
        self.post(|unread| unread.displaced = unread.displaced.max(Some(now)));
    }

    pub(crate) fn reconnected(&self) {
        self.post(|unread| unread.reconnected = true);
    }

    pub(crate) fn ask_for_all(&self) {
        self.post(|unread| unread.ask_for_all = true);
    }

    pub(crate) fn closing(&self) {
        self.post(|unread| unread.closing = true);
    }

    /// Records that somebody waits for the resource that this attempt was granted.
    pub(crate) fn wanted(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Records that a reply made at server time `now` was received. After the clock was set back, `now` may be less
    /// than in the reply before.
    pub(crate) fn answered(&self, now: u64) {
        self.unread.lock().answered = now;
    }

    /// Called before asking another server. Drops what carries a server time, since that server has another clock.
    pub(crate) fn elsewhere(&self) {
        let mut unread = self.unread.lock();
        (unread.grant, unread.dropped, unread.displaced, unread.answered) = (None, None, None, 0);
        unread.ended = None;
    }

    /// Called before asking. The question deals with the messages that made it necessary, because its answer is newer
    /// than they are.
    pub(crate) fn asking(&self) {
        let mut unread = self.unread.lock();
        (unread.reconnected, unread.ask_for_all, unread.dropped, unread.ended) = (false, false, None, None);
    }

    /// The next thing to do, if any.
    ///
    /// A message that is older than the last reply is not believed, because the reply took account of what the message
    /// says. But if the server clock was set back in between, the message is the newer one. Few messages are overtaken
    /// in this way, so the waiter asks the server.
    pub(crate) fn take(&self) -> Option<Mail> {
        let mut unread = self.unread.lock();
        let (dropped, displaced, grant) = (unread.dropped.take(), unread.displaced.take(), unread.grant.take());
        unread.ended = None;
        let displaced = displaced.filter(|now| *now > unread.answered);
        let ended = dropped.max(displaced);
        if let Some(grant) = grant.filter(|grant| grant.now >= unread.answered.max(ended.map_or(0, |now| now + 1))) {
            Some(Mail::Granted(grant))
        } else if unread.closing {
            Some(Mail::Closing)
        } else if dropped.is_some() || grant.is_some() {
            Some(Mail::Dropped)
        } else if displaced.is_some() || std::mem::take(&mut unread.reconnected) {
            Some(Mail::AskAgain)
        } else {
            std::mem::take(&mut unread.ask_for_all).then_some(Mail::AskForAll)
        }
    }

    pub(crate) async fn wait(&self) {
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
    fn what_is_older_than_the_last_reply_is_asked_about_and_not_believed() {
        let mailbox = Mailbox::default();
        mailbox.answered(12);
        mailbox.granted(grant(10));
        assert!(matches!(mailbox.take(), Some(Mail::Dropped)));
        assert!(mailbox.take().is_none());
        mailbox.dropped(11);
        assert!(matches!(mailbox.take(), Some(Mail::Dropped)));
        // It came before the question was sent, which has the newer answer.
        mailbox.dropped(13);
        mailbox.asking();
        mailbox.answered(14);
        assert!(mailbox.take().is_none());
    }

    #[test]
    fn a_place_that_was_confirmed_since_is_not_asked_about() {
        let mailbox = Mailbox::default();
        mailbox.answered(10);
        mailbox.displaced(10);
        assert!(mailbox.take().is_none());
        mailbox.granted(grant(11));
        mailbox.displaced(12);
        assert!(matches!(mailbox.take(), Some(Mail::Dropped)), "the grant is gone, too");
        assert!(mailbox.take().is_none());
        mailbox.displaced(12);
        assert!(matches!(mailbox.take(), Some(Mail::AskAgain)));
    }

    #[test]
    fn a_grant_after_the_clock_was_set_back_counts() {
        let mailbox = Mailbox::default();
        mailbox.answered(1000);
        mailbox.answered(10);
        mailbox.granted(grant(11));
        assert!(matches!(mailbox.take(), Some(Mail::Granted(_))));
    }

    #[test]
    fn a_grant_that_ended_since_is_none() {
        let mailbox = Mailbox::default();
        mailbox.answered(5);
        mailbox.granted(grant(10));
        mailbox.dropped(20);
        assert!(matches!(mailbox.take(), Some(Mail::Dropped)));
        mailbox.dropped(21);
        mailbox.granted(grant(22));
        assert!(matches!(mailbox.take(), Some(Mail::Granted(_))));
    }
}
