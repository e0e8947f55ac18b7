use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Instant;

/// The most that two clocks drift apart: one per cent of the time, plus the error of rounding to milliseconds.
const DRIFT_PERCENT: u32 = 1;
const SLACK: Duration = Duration::from_millis(2);

/// A server clock that falls back by more than this was set back. Smaller corrections are not worth a command from
/// every waiter.
const STEP: Duration = Duration::from_millis(10);

fn without_drift(duration: Duration) -> Duration {
    duration - duration * DRIFT_PERCENT / 100
}

/// Until when a lease may be believed in, if the server started it after `sent`.
pub(crate) fn believed(sent: Instant, lease: Duration) -> Instant {
    sent + without_drift(lease).saturating_sub(SLACK)
}

fn micros(from: u64, to: u64) -> Duration {
    Duration::from_micros(to.saturating_sub(from))
}

/// Until when a lease that ends at server time `x` may be believed in. It is computed from an exchange in which the
/// server's clock showed `server` at some time after `sent`.
pub(crate) fn believed_until(sent: Instant, server: u64, x: u64) -> Instant {
    believed(sent, micros(server, x))
}

/// An exchange with the server: the server's clock showed `server` at some time between the two instants.
#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Instant,
    received: Instant,
    server: u64,
}

/// The latest exchange with this run of the server. It translates between the server's clock and ours.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<Sample>>);

impl ServerClock {
    /// Notes an exchange that was answered just now. Returns whether the server's clock was set back since the latest
    /// exchange.
    pub(crate) fn note(&self, sent: Instant, server: u64) -> bool {
        let mut latest = self.0.lock();
        if latest.is_some_and(|latest| sent <= latest.sent) {
            return false;
        }
        let before = latest.replace(Sample { sent, received: Instant::now(), server });
        // If the two exchanges overlapped, the server may have run the later one first, by at most their overlap.
        before.is_some_and(|before| micros(server, before.server) > before.received.since(sent) + STEP)
    }

    /// Forgets the exchange. Another run of the server may have another clock.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }

    fn latest(&self) -> Option<Sample> {
        *self.0.lock()
    }

    /// The server's time now, never ahead of the server's clock; 0 if unknown.
    pub(crate) fn stamp(&self) -> u64 {
        self.latest().map_or(0, |sample| {
            let passed = u64::try_from(sample.received.elapsed().as_micros()).unwrap_or(u64::MAX);
            sample.server.saturating_add(passed)
        })
    }

    /// A server time on this process's clock. `None` before the first exchange. It is never too late, and too early by
    /// one round trip at most: a process that stood still notes the answer of its last exchange long after it came, so
    /// it counts from the time when that was sent.
    pub(crate) fn local(&self, server: u64) -> Option<Instant> {
        let sample = self.latest()?;
        Some(if server >= sample.server {
            sample.sent + micros(sample.server, server)
        } else {
            sample.sent - micros(server, sample.server)
        })
    }

    /// Until when a grant may be believed in that was pushed at server time `now` and ends at `x`. It is the earlier of
    /// two limits: one counted from the arrival, and one from an exchange before the push, because the push may have
    /// been delayed on its way.
    pub(crate) fn believed_push(&self, received: Instant, now: u64, x: u64) -> Option<Instant> {
        let sample = self.latest()?;
        let by_arrival = received + micros(now, x).saturating_sub(SLACK);
        Some(by_arrival.min(believed_until(sample.sent, sample.server, x)))
    }

    /// How long ago the server's clock showed `server`.
    pub(crate) fn age(&self, received: Instant, server: u64) -> Option<Duration> {
        let sample = self.latest()?;
        let middle = sample.sent + sample.received.since(sample.sent) / 2;
        let at = if server >= sample.server {
            middle + micros(sample.server, server)
        } else {
            middle - micros(server, sample.server)
        };
        Some(received.since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pushed_lease_is_never_believed_beyond_its_end() {
        let clock = ServerClock::default();
        let sent = Instant::now();
        let received = sent + Duration::from_millis(30);
        assert_eq!(clock.believed_push(received, 0, 0), None);
        clock.note(sent, 1_000_000_000);
        // Pushed 1 s after the exchange for 2 s, and received at once: it ends 3 s after the exchange was sent, at
        // most.
        let arrival = sent + Duration::from_secs(1);
        let until = clock.believed_push(arrival, 1_001_000_000, 1_003_000_000).unwrap();
        assert!(until < sent + Duration::from_secs(3) && until > sent + Duration::from_millis(2900));
        // The same message has expired if it is read 10 s later.
        let late = sent + Duration::from_secs(11);
        assert!(clock.believed_push(late, 1_001_000_000, 1_003_000_000).unwrap() < late);
    }

    #[test]
    fn a_clock_that_was_set_back_is_told_from_exchanges_that_overlap() {
        let clock = ServerClock::default();
        let sent = Instant::now() - Duration::from_millis(500);
        assert!(!clock.note(sent, 1_000_000_000));
        // Sent half a second before the first was answered: the server may have run it first.
        assert!(!clock.note(sent + Duration::from_millis(1), 999_600_000));
        assert!(clock.note(sent + Duration::from_millis(2), 999_000_000));
        // The clock goes on from there. An earlier exchange that is answered late says nothing about it.
        assert!(!clock.note(sent + Duration::from_millis(3), 999_000_001));
        assert!(!clock.note(sent, 1));
        assert!(!clock.note(Instant::now(), 999_000_001 - 9_000));
        assert!(clock.note(Instant::now(), 998_000_000));
    }

    #[test]
    fn a_process_that_stood_still_during_an_exchange_takes_no_server_time_for_a_later_one() {
        let clock = ServerClock::default();
        // Its answer came at once, and is noted five minutes later.
        let sent = Instant::now() - Duration::from_secs(300);
        clock.note(sent, 1_000_000_000);
        let ended = clock.local(1_290_000_000).unwrap();
        assert!(ended < Instant::now(), "what ended ten seconds ago has {:?} left", ended.since(Instant::now()));
        assert_eq!(clock.local(999_000_000).unwrap(), sent - Duration::from_secs(1));
    }

    #[test]
    fn drift_is_taken_off() {
        let sent = Instant::now();
        assert_eq!(believed(sent, Duration::from_secs(10)).since(sent), Duration::from_millis(9898));
        assert_eq!(believed(sent, Duration::ZERO), sent);
    }
}
