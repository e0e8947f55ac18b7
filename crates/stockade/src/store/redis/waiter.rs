use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::sleep;

use super::{
    calls::{Asking, GRANT},
    cell::{Cell, Event, Grant},
    compensation::Sent,
    inner::{Inner, unavailable},
    pokes::Poker,
    replies::{Acquired, Renewed},
    sample::{believed, believed_until},
    scripts::ACQUIRE,
};
use crate::{
    clock::Instant,
    redis::LinkError,
    store::{Attempt, LockError, Owner, Ownership, Token, Unavailable},
};

/// The most attempts of one process at a time, whatever their resources.
const MOST_ATTEMPTS: usize = 65_536;
/// An unbounded wait is entered in the queue for a minute at a time.
const REFRESH: Duration = Duration::from_secs(20);
/// How often a grant is confirmed that is nearly over by the time each confirmation is there.
const MOST_CONFIRMATIONS: u32 = 3;
/// Spreads the pokes of many processes.
const JITTER: Duration = Duration::from_millis(50);

/// One attempt, from the first command to the ownership. Dropping it undoes what was sent.
pub(super) struct Waiter {
    inner: Arc<Inner>,
    attempt: Attempt,
    owner: Owner,
    cell: Arc<Cell>,
    since: Instant,
    /// The end of the wait; `None` without limit.
    until: Option<Instant>,
    /// The place in the queue, once there is one.
    seq: u64,
    sent: Option<Sent>,
    /// Whether the last sending has been answered.
    answered: bool,
    /// The run of the server that was asked last.
    run: u64,
    /// What kept the last question from being answered.
    trouble: Option<LockError>,
    remaining: Duration,
}

/// What a question led to.
enum Answer {
    Held(Arc<Ownership>),
    Queued,
    Refused(LockError),
    /// Perhaps executed, perhaps not.
    Unknown(LockError),
}

impl Waiter {
    pub(super) fn new(inner: &Arc<Inner>, attempt: Attempt) -> Self {
        let since = Instant::now();
        let until = (attempt.wait != Duration::MAX).then(|| since + attempt.wait);
        Self {
            owner: inner.new_owner(),
            inner: Arc::clone(inner),
            attempt,
            cell: Arc::default(),
            since,
            until,
            seq: 0,
            sent: None,
            answered: true,
            run: 0,
            trouble: None,
            remaining: Duration::ZERO,
        }
    }

    pub(super) async fn acquire(mut self) -> Result<Arc<Ownership>, LockError> {
        if !self.attempt.wait.is_zero() {
            let waiters = self.inner.waiters.len();
            if waiters >= MOST_ATTEMPTS {
                return Err(LockError::QueueFull { waiters: waiters as u64, remaining: Duration::ZERO });
            }
            self.inner.waiters.insert(&self.owner, &self.attempt.key, &self.cell);
        }
        // After it is known to the inbox, so that a shutdown either finds it there or is found here.
        if self.inner.is_closing() {
            return Err(LockError::ShuttingDown);
        }
        self.inner.link.attempted().await;
        match self.ask().await {
            Answer::Held(ownership) => Ok(ownership),
            Answer::Refused(error) | Answer::Unknown(error) => Err(error),
            // It was held for a moment that passed before it could be used.
            Answer::Queued if self.attempt.wait.is_zero() => Err(LockError::Busy { remaining: Duration::ZERO }),
            Answer::Queued => self.wait().await,
        }
    }

    async fn wait(mut self) -> Result<Arc<Ownership>, LockError> {
        let poker = Poker::new(&self.inner.pokes, &self.attempt.key);
        let mut asked = Instant::now();
        let mut alarm = self.next_poke();
        // Whether it may have no place in the queue: nobody else's poke finds that out.
        let mut in_doubt = false;
        loop {
            let ask = match self.cell.take() {
                Some(Event::Granted(grant)) => match self.admit(grant).await {
                    Some(ownership) => return Ok(ownership),
                    None => {
                        in_doubt = true;
                        true
                    }
                },
                Some(Event::AskAgain) => {
                    in_doubt = true;
                    true
                }
                Some(Event::Closing) => return Err(LockError::ShuttingDown),
                None => {
                    if self.until.is_some_and(|until| until.remaining().is_zero()) {
                        return Err(self.timed_out());
                    }
                    let limit = self.until.map_or(alarm, |until| until.min(alarm));
                    tokio::select! {
                        () = self.cell.wait() => false,
                        () = sleep(limit.remaining()) => {
                            if !alarm.remaining().is_zero() {
                                false
                            } else if in_doubt || (self.until.is_none() && asked.elapsed() >= REFRESH) {
                                true
                            } else {
                                match poker.claim(self.period()) {
                                    Ok(()) => true,
                                    Err(left) => {
                                        alarm = Instant::now() + left + jitter();
                                        false
                                    }
                                }
                            }
                        }
                    }
                }
            };
            if !ask {
                continue;
            }
            if self.until.is_some_and(|until| until.remaining().is_zero()) {
                return Err(self.timed_out());
            }
            asked = Instant::now();
            match self.ask().await {
                Answer::Held(ownership) => return Ok(ownership),
                Answer::Queued => {
                    self.trouble = None;
                    in_doubt = false;
                }
                Answer::Refused(error) => return Err(error),
                // Whatever made it ask may have been all there was to tell it that its place is gone.
                Answer::Unknown(error) => {
                    self.trouble = Some(error);
                    in_doubt = true;
                }
            }
            alarm = self.next_poke();
        }
    }

    fn period(&self) -> Duration {
        self.remaining.min(self.grant_lease()).max(Duration::from_millis(5))
    }

    fn next_poke(&self) -> Instant {
        Instant::now() + self.period() + jitter()
    }

    fn grant_lease(&self) -> Duration {
        self.attempt.lease.min(GRANT)
    }

    fn timed_out(&mut self) -> LockError {
        let waited = self.since.elapsed();
        self.trouble.take().unwrap_or(LockError::Timeout { waited, remaining: self.remaining })
    }

    /// Sends the attempt, again or for the first time, with the place it has.
    async fn ask(&mut self) -> Answer {
        let (mut scripts_lost, mut stale) = (false, false);
        loop {
            let reply = match self.send().await {
                Ok(reply) => reply,
                // Not executed, and loaded again meanwhile.
                Err(LinkError::NoScript) if !scripts_lost => {
                    scripts_lost = true;
                    continue;
                }
                Err(error) => {
                    let never_sent = matches!(error, LinkError::Down | LinkError::Open { .. });
                    if never_sent && self.seq == 0 && !stale && !scripts_lost {
                        self.sent = None;
                    }
                    return Answer::Unknown(unavailable(&error));
                }
            };
            let (sent, reply) = reply;
            return match reply {
                Acquired::Free { token } => self.held(token, believed(sent, self.attempt.lease), None).await,
                Acquired::Granted { token, x, now } => {
                    self.answered(sent, now);
                    self.held(token, believed_until(sent, now, x), None).await
                }
                Acquired::Queued { seq, remaining, now } => {
                    self.answered(sent, now);
                    self.seq = seq;
                    self.remaining = remaining;
                    Answer::Queued
                }
                Acquired::Busy { remaining, now } => {
                    self.answered(sent, now);
                    self.sent = None;
                    Answer::Refused(LockError::Busy { remaining })
                }
                Acquired::Full { waiters, remaining, now } => {
                    self.answered(sent, now);
                    self.sent = None;
                    Answer::Refused(LockError::QueueFull { waiters, remaining })
                }
                Acquired::Stale { now } => {
                    self.answered(sent, now);
                    if !stale {
                        stale = true;
                        continue;
                    }
                    let retry_after = Duration::from_secs(1);
                    Answer::Unknown(LockError::Unavailable { reason: Unavailable::Stale, retry_after })
                }
            };
        }
    }

    fn answered(&self, sent: Instant, now: u64) {
        self.inner.clock.note(sent, now);
        self.cell.answered(now);
    }

    async fn send(&mut self) -> Result<(Instant, Acquired), LinkError> {
        let inner = Arc::clone(&self.inner);
        let wait = match self.until {
            None => None,
            Some(_) if self.attempt.wait.is_zero() => Some(Duration::ZERO),
            // One that has begun to wait never becomes one that doesn't.
            Some(until) => Some(until.remaining().max(Duration::from_millis(1))),
        };
        let asking = Asking {
            attempt: &self.attempt,
            owner: &self.owner,
            wait,
            seq: self.seq,
            stamp: inner.clock.stamp(),
            stale_after: inner.link.timeout() * 2,
        };
        self.cell.asking();
        self.run = inner.run();
        let args = asking.args(&inner.handing());
        let keys = inner.keys.of(&self.attempt.key);
        let before = inner.link.generation();
        let sent = Instant::now();
        let reply = inner.link.call(&ACQUIRE, keys, args);
        let generation = (inner.link.generation() == before).then_some(before);
        // A lease, or a place in the queue, which outlives its wait by some seconds.
        let longest = self.attempt.lease.max(wait.unwrap_or(Duration::from_secs(60))) + Duration::from_secs(15);
        let before = self.sent.map(|before| (before, self.answered));
        self.sent = Some(Sent::new(sent, generation, sent + longest, before));
        self.answered = false;
        let reply = Acquired::read(&reply.await?)?;
        self.answered = true;
        Ok((sent, reply))
    }

    /// A grant was pushed; `None` when it is over and the attempt must ask again.
    async fn admit(&mut self, grant: Grant) -> Option<Arc<Ownership>> {
        let handed_off = self.inner.clock.age(grant.received, grant.now);
        // Without any exchange to map it by, it counts as over and is confirmed.
        let until = self.inner.clock.believed_push(grant.received, grant.now, grant.x).unwrap_or(grant.received);
        match self.held(grant.token, until, Some(handed_off.unwrap_or_default())).await {
            Answer::Held(ownership) => Some(ownership),
            Answer::Queued | Answer::Refused(_) => None,
            Answer::Unknown(error) => {
                self.trouble = Some(error);
                None
            }
        }
    }

    /// Enters with a grant that has enough time left; confirms it first where it has not.
    async fn held(&mut self, token: Token, mut until: Instant, handed_off: Option<Duration>) -> Answer {
        let mut confirmations = 0;
        while until.remaining() < self.grant_lease() / 2 {
            if confirmations == MOST_CONFIRMATIONS {
                // Round trips take longer than the lease allows for: it would be kept for ever and never used.
                return Answer::Unknown(unavailable(&LinkError::Timeout));
            }
            confirmations += 1;
            let sent = Instant::now();
            let call = (self.inner.keys.of(&self.attempt.key), vec![(self.owner.clone(), self.attempt.lease)]);
            match self.inner.renew_one(call).await {
                Ok(Renewed::Extended { now }) => {
                    self.inner.clock.note(sent, now);
                    until = believed(sent, self.attempt.lease);
                }
                Ok(Renewed::Ending { now } | Renewed::Gone { now }) => {
                    // It is the next one's by now. Ours is the old place, to be asked for.
                    self.cell.dropped(now + 1);
                    if self.seq == 0 {
                        self.seq = token.get();
                    }
                    return Answer::Queued;
                }
                Err(error) => return Answer::Unknown(unavailable(&error)),
            }
        }
        let (key, owner) = (self.attempt.key.clone(), self.owner.clone());
        let (mode, lease) = (self.attempt.mode, self.attempt.lease);
        let ownership = Arc::new(Ownership::new(key, owner, mode, token, lease, until, handed_off));
        self.inner.floors.note(&self.attempt.key, token);
        let answered = self.answered;
        // One that timed out before the grant came may have gone with its connection when the release is sent.
        let stray = self.sent.take().and_then(|sent| if answered { sent.stray } else { Some(sent.at) });
        self.inner.held.insert(&ownership, self.run, stray);
        if self.inner.run() != self.run {
            // The link has met another run since, and has asked about all others already.
            self.inner.verify_all();
        }
        Answer::Held(ownership)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        match self.sent.take() {
            Some(sent) => {
                self.inner.waiters.give_up(&self.owner, &self.attempt.key);
                self.inner.cancel(self.attempt.key.clone(), self.owner.clone(), sent);
            }
            None if self.attempt.wait.is_zero() => {}
            None => self.inner.waiters.remove(&self.owner),
        }
    }
}

fn jitter() -> Duration {
    rand::rng().random_range(Duration::ZERO..=JITTER)
}
