use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::clock::Instant;

const BUCKETS: usize = 256;

/// The numbers of the messages of each bucket, as this connection hears them.
#[derive(Debug)]
pub(super) struct Sequences(Mutex<Heard>);

#[derive(Debug)]
struct Heard {
    last: [Option<u64>; BUCKETS],
    /// Buckets whose number nobody has repeated since it changed.
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
    /// Another connection: nothing is known of the numbers before it.
    pub(super) fn begin(&self, now: Instant) {
        *self.lock() = Heard { last: [None; BUCKETS], unconfirmed: Vec::new(), heartbeat_at: now };
    }

    /// Notes the number of a message. `heartbeat_at` is when a heartbeat was heard, which repeats the last number;
    /// `None` for news, which has the next. Returns whether a message was missed.
    pub(super) fn note(&self, bucket: u8, seq: u64, heartbeat_at: Option<Instant>) -> bool {
        let mut heard = self.lock();
        let expected = heard.last[usize::from(bucket)].replace(seq);
        if let Some(now) = heartbeat_at {
            heard.heartbeat_at = now;
            heard.unconfirmed.retain(|other| *other != bucket);
        } else if !heard.unconfirmed.contains(&bucket) {
            heard.unconfirmed.push(bucket);
        }
        let repeats = heartbeat_at.is_some();
        expected.is_some_and(|last| if repeats { seq != last } else { seq != last + 1 })
    }

    /// The time since anybody's heartbeat was heard.
    pub(super) fn since_heartbeat(&self) -> Duration {
        self.lock().heartbeat_at.elapsed()
    }

    /// The buckets that a heartbeat should repeat: those that changed since the last one.
    pub(super) fn unconfirmed(&self) -> Vec<u8> {
        self.lock().unconfirmed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
