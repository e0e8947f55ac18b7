use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::sleep;

use super::{
    call::AcquireOutcome,
    mailbox::{Event, Mailbox},
    throttle::Poker,
};
use crate::{
    clock::Instant,
    redis::{Carrier, Run},
    store::{
        Attempt, LockError, Owner, Ownership,
        redis::{
            commands::calls::GRANT,
            inner::Inner,
            release::{Posted, Sent},
        },
    },
};

/// The most attempts of one process at a time, whatever their resources.
const MOST_ATTEMPTS: usize = 65_536;
/// An unbounded wait is entered in the queue for a minute at a time.
const REFRESH: Duration = Duration::from_secs(20);
/// What an attempt that doesn't wait gives those to give way who do so as soon as they are told to.
const YIELDING: Duration = Duration::from_millis(100);
/// Spreads the pokes of many processes.
const JITTER: Duration = Duration::from_millis(50);

/// One attempt, from the first command to the ownership. Dropping it undoes what was sent.
pub(crate) struct Waiter {
    pub(crate) inner: Arc<Inner>,
    pub(crate) attempt: Attempt,
    pub(crate) owner: Owner,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) since: Instant,
    /// The end of the wait, as it was told the store; `None` without limit.
    pub(crate) until: Option<Instant>,
    /// Its part in the pokes; `None` for an attempt that does not wait.
    pub(crate) poker: Option<Poker>,
    /// The place in the queue, once there is one.
    pub(crate) seq: u64,
    /// When the question was sent that last found the place there; `None` when it is known to be gone.
    pub(crate) confirmed: Option<Instant>,
    pub(crate) sent: Option<Sent>,
    /// The command that is under way, if it has been sent.
    pub(crate) posted: Option<Posted>,
    /// Whether the last sending has been answered.
    pub(crate) answered: bool,
    /// Whether it has asked once without queueing, in a bucket where no grant would have reached it.
    pub(crate) knocked: bool,
    /// The connection that the last question went out on, if what it leads to would be heard there.
    pub(crate) heard: Option<Carrier>,
    /// Whether all who hold it were told to give way.
    pub(crate) yields: bool,
    /// The run of the server that has been through its quarantine.
    pub(crate) cleared: Option<Run>,
    /// The run of the server that was asked last.
    pub(crate) run: Run,
    /// What kept the last question from being answered.
    pub(crate) trouble: Option<LockError>,
    pub(crate) remaining: Duration,
    /// Its place in the queue, from 1, as the store last told it.
    pub(crate) position: Option<u64>,
}

/// When a waiter asks next, and why.
struct Rest {
    asked: Instant,
    alarm: Instant,
    /// Whether it may have no place in the queue: nobody else's poke finds that out.
    in_doubt: bool,
}

impl Waiter {
    pub(crate) fn new(inner: &Arc<Inner>, attempt: Attempt) -> Self {
        let since = Instant::now();
        let until = (attempt.wait != Duration::MAX).then(|| since + attempt.wait);
        Self {
            owner: inner.new_owner(),
            inner: Arc::clone(inner),
            attempt,
            mailbox: Arc::default(),
            since,
            until,
            poker: None,
            seq: 0,
            confirmed: None,
            sent: None,
            posted: None,
            answered: true,
            knocked: false,
            heard: None,
            yields: false,
            cleared: None,
            run: Run::default(),
            trouble: None,
            remaining: Duration::ZERO,
            position: None,
        }
    }

    pub(crate) async fn acquire(mut self) -> Result<Arc<Ownership>, LockError> {
        self.register()?;
        self.inner.shards.attempted(self.attempt.key.bucket(), self.inner.timeout).await;
        match self.ask().await {
            AcquireOutcome::Held(ownership) => Ok(ownership),
            AcquireOutcome::Refused(LockError::Busy { .. }) if self.yields => self.ask_those_who_yield().await,
            AcquireOutcome::Refused(error) | AcquireOutcome::Unknown(error) => Err(error),
            // It was held for a moment that passed before it could be used.
            AcquireOutcome::Queued if self.attempt.wait.is_zero() => Err(LockError::Busy { remaining: Duration::ZERO }),
            AcquireOutcome::Queued => self.wait().await,
        }
    }

    /// All who hold it have been told to give way, which takes them a message: an attempt that doesn't wait asks once more,
    /// and waits for that.
    async fn ask_those_who_yield(mut self) -> Result<Arc<Ownership>, LockError> {
        (self.attempt.wait, self.until) = (YIELDING, Some(Instant::now() + YIELDING));
        // No reason to ask a third time.
        self.knocked = true;
        self.register()?;
        let acquired = match self.ask().await {
            AcquireOutcome::Held(ownership) => return Ok(ownership),
            AcquireOutcome::Refused(error) | AcquireOutcome::Unknown(error) => Err(error),
            AcquireOutcome::Queued => self.wait().await,
        };
        acquired.map_err(|error| match error {
            LockError::Timeout { remaining, .. } => LockError::Busy { remaining },
            error => error,
        })
    }

    /// Makes one that waits known to the inbox.
    fn register(&mut self) -> Result<(), LockError> {
        if !self.attempt.wait.is_zero() {
            let waiters = self.inner.waiters.len();
            if waiters >= MOST_ATTEMPTS {
                let waiters = waiters as u64;
                return Err(LockError::QueueFull { waiters, position: waiters + 1, remaining: Duration::ZERO });
            }
            self.inner.waiters.insert(&self.owner, &self.attempt.key, &self.mailbox);
            self.poker = Some(Poker::new(&self.inner.pokes, &self.attempt.key, &self.owner, &self.mailbox));
        }
        // After it is known to the inbox, so that a shutdown either finds it there or is found here.
        if self.inner.is_closing() { Err(LockError::ShuttingDown) } else { Ok(()) }
    }

    async fn wait(mut self) -> Result<Arc<Ownership>, LockError> {
        let mut rest = Rest { asked: Instant::now(), alarm: self.next_poke(), in_doubt: false };
        loop {
            let answer = match self.mailbox.take() {
                Some(Event::Closing) => return Err(LockError::ShuttingDown),
                Some(Event::Granted(grant)) => {
                    self.confirmed = None;
                    match self.admit(grant).await {
                        answer @ (AcquireOutcome::Held(_) | AcquireOutcome::Refused(_)) => answer,
                        AcquireOutcome::Queued => self.ask_in_time(&mut rest).await,
                        AcquireOutcome::Unknown(error) => {
                            self.trouble = Some(error);
                            self.ask_in_time(&mut rest).await
                        }
                    }
                }
                Some(Event::Dropped) => {
                    self.confirmed = None;
                    self.ask_in_time(&mut rest).await
                }
                Some(Event::Poke) if !self.claims(&mut rest) => continue,
                None if self.is_over() => match self.put_off() {
                    // The store knows the end that was told it.
                    true => self.ask_in_time(&mut rest).await,
                    false => return Err(self.timed_out()),
                },
                None if !self.rest(&mut rest).await => continue,
                Some(Event::AskAgain | Event::Poke) | None => self.ask_in_time(&mut rest).await,
            };
            match answer {
                AcquireOutcome::Held(ownership) => return Ok(ownership),
                AcquireOutcome::Refused(error) => return Err(error),
                AcquireOutcome::Queued => (self.trouble, rest.in_doubt) = (None, false),
                // Whatever made it ask may have been all there was to tell it that its place is gone.
                AcquireOutcome::Unknown(error) => (self.trouble, rest.in_doubt) = (Some(error), true),
            }
            rest.alarm = self.next_poke();
        }
    }

    /// Rests until there is something in the mailbox or the alarm rings. Returns whether to ask then.
    async fn rest(&self, rest: &mut Rest) -> bool {
        let limit = self.until.map_or(rest.alarm, |until| until.min(rest.alarm));
        tokio::select! {
            () = self.mailbox.wait() => return false,
            () = sleep(limit.remaining()) => {}
        }
        if !rest.alarm.remaining().is_zero() {
            return false;
        }
        rest.in_doubt || (self.until.is_none() && rest.asked.elapsed() >= REFRESH) || self.claims(rest)
    }

    /// Whether this waiter is the one that pokes now; else its alarm rings when the next poke is due.
    fn claims(&self, rest: &mut Rest) -> bool {
        match self.poker.as_ref().map_or(Ok(()), |poker| poker.claim(self.period())) {
            Ok(()) => true,
            Err(left) => {
                rest.alarm = Instant::now() + left + jitter();
                false
            }
        }
    }

    async fn ask_in_time(&mut self, rest: &mut Rest) -> AcquireOutcome {
        if self.is_over() && !self.put_off() {
            return AcquireOutcome::Refused(self.timed_out());
        }
        rest.asked = Instant::now();
        self.ask().await
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until.remaining().is_zero())
    }

    /// Readers who have come since may wait for longer. Returns whether that puts off the end of the wait.
    pub(crate) fn put_off(&mut self) -> bool {
        let Some((until, readers)) = self.until.zip(self.attempt.yields.as_ref()) else { return false };
        let latest = readers.waits_until();
        let later = latest.is_none_or(|latest| latest > until);
        if later {
            self.until = latest;
        }
        later
    }

    fn period(&self) -> Duration {
        self.remaining.min(self.grant_lease()).max(Duration::from_millis(5))
    }

    fn next_poke(&self) -> Instant {
        Instant::now() + self.period() + jitter()
    }

    pub(crate) fn grant_lease(&self) -> Duration {
        self.attempt.lease.min(GRANT)
    }

    /// The command that was under way is the last sending, if it was sent.
    pub(crate) fn note_sending(&mut self) {
        let Some(posted) = self.posted.take() else { return };
        let before = self.sent.map(|sent| (sent, self.answered));
        if let Some((sent, answered)) = posted.sent(before) {
            (self.sent, self.answered) = (Some(sent), answered);
        }
    }

    fn timed_out(&mut self) -> LockError {
        let waited = self.since.elapsed();
        let (key, remaining, position) = (self.attempt.key.clone(), self.remaining, self.position);
        self.trouble.take().unwrap_or(LockError::Timeout { key, waited, remaining, position })
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // The reply was dropped before, and an attempt that was not sent by then never is.
        self.note_sending();
        match self.sent.take() {
            Some(sent) => {
                self.inner.waiters.give_up(&self.owner, &self.attempt.key);
                self.inner.cancel(self.attempt.key.clone(), self.owner.clone(), sent, self.confirmed.is_some());
            }
            None if self.attempt.wait.is_zero() => {}
            None => self.inner.waiters.remove(&self.owner),
        }
    }
}

fn jitter() -> Duration {
    rand::rng().random_range(Duration::ZERO..=JITTER)
}
