use std::time::Duration;

use rand::Rng;
use tokio::time::sleep;

use super::{
    state::Wakeup,
    waiter::{Alarm, Waiter},
};
use crate::{clock::Instant, store::LockError};

/// How often a wait without limit is entered in the queue again. Each entry lasts a minute.
const REFRESH: Duration = Duration::from_secs(20);
/// The shortest time between two questions of the waiters of one process.
const SHORTEST_PERIOD: Duration = Duration::from_millis(5);
/// The largest random delay, which spreads the questions of many processes.
const JITTER: Duration = Duration::from_millis(50);

fn jitter() -> Duration {
    rand::rng().random_range(Duration::ZERO..=JITTER)
}

impl Waiter {
    /// Sets the alarm after an answer. `first`: the attempt did not wait before.
    pub(super) fn set_alarm(&mut self, first: bool) {
        let now = Instant::now();
        let asked = if first { now } else { self.alarm.asked };
        self.alarm = Alarm { at: now + self.period() + jitter(), asked };
    }

    /// Rests until there is something in the mailbox, the wait is over, or the alarm rings.
    pub(super) async fn rest(&self) -> Wakeup {
        loop {
            if let Some(mail) = self.mailbox.take() {
                return Wakeup::Mail(mail);
            }
            if self.limit.is_over() {
                return Wakeup::TimeUp;
            }
            let limit = self.limit.until.map_or(self.alarm.at, |until| until.min(self.alarm.at));
            tokio::select! {
                () = self.mailbox.wait() => continue,
                () = sleep(limit.remaining()) => {}
            }
            if self.alarm.at.remaining().is_zero() {
                let refresh = self.limit.until.is_none() && self.alarm.asked.elapsed() >= REFRESH;
                return Wakeup::Alarm { refresh };
            }
        }
    }

    /// Whether this waiter is the one of its process that asks now. If not, its alarm rings when the next question is
    /// due.
    pub(super) fn claim(&mut self) -> bool {
        match self.inner.throttle.claim(&self.attempt.key, self.period()) {
            Ok(()) => true,
            Err(left) => {
                self.alarm.at = Instant::now() + left + jitter();
                false
            }
        }
    }

    /// The error of a wait that is over. `None` when the waiter may ask; then the question counts as begun.
    pub(super) fn ask_in_time(&mut self) -> Option<LockError> {
        if self.limit.is_over() && !self.put_off() {
            return Some(self.timeout(self.place.remaining));
        }
        self.alarm.asked = Instant::now();
        None
    }

    fn period(&self) -> Duration {
        self.place.remaining.min(self.grant_lease()).max(SHORTEST_PERIOD)
    }
}
