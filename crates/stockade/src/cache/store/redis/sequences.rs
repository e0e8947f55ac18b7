use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Instant;

const BUCKETS: usize = 256;

/// The sequence numbers of the messages of each bucket, as heard on this connection.
#[derive(Debug)]
pub(super) struct Sequences(Mutex<Heard>);

#[derive(Debug)]
struct Heard {
    last: [Option<u64>; BUCKETS],
    /// Buckets whose number changed and that no heartbeat has repeated since.
    unconfirmed: Vec<u8>,
    heartbeat_at: Instant,
}

impl Default for Sequences {
    fn default() -> Self {
        let heartbeat_at = Instant::from_nanos(0);
        Self(Mutex::new(Heard { last: [None; BUCKETS], unconfirmed: Vec::new(), heartbeat_at }))
    }
}

impl Sequences {
    /// Begins a new connection, on which no number was heard yet.
    pub(super) fn begin(&self, now: Instant) {
        *self.0.lock() = Heard { last: [None; BUCKETS], unconfirmed: Vec::new(), heartbeat_at: now };
    }

    /// Notes the number of a message. Returns whether a message was missed. A heartbeat repeats the last number, and
    /// `heartbeat_at` is when it was heard. Any other message has the next number, and `heartbeat_at` is `None`.
    pub(super) fn note(&self, bucket: u8, seq: u64, heartbeat_at: Option<Instant>) -> bool {
        let mut heard = self.0.lock();
        let expected = heard.last[usize::from(bucket)].replace(seq);
        if let Some(now) = heartbeat_at {
            heard.heartbeat_at = now;
            heard.unconfirmed.retain(|other| *other != bucket);
        } else if !heard.unconfirmed.contains(&bucket) {
            heard.unconfirmed.push(bucket);
        }
        let repeats = heartbeat_at.is_some();
        expected.is_some_and(|last| if repeats { seq != last } else { last.checked_add(1) != Some(seq) })
    }

    /// The time since a heartbeat of any process was heard.
    pub(super) fn since_heartbeat(&self) -> Duration {
        self.0.lock().heartbeat_at.elapsed()
    }

    /// The buckets that the next heartbeat should repeat: their number changed and was not repeated since.
    pub(super) fn unconfirmed(&self) -> Vec<u8> {
        self.0.lock().unconfirmed.clone()
    }
}
