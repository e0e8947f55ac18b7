use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    resource::{Bucket, Key},
    store::Token,
};

/// The largest token that this process has seen in each bucket; 0 if it has seen none. The number of floors is fixed,
/// so no memory is used per resource name.
#[derive(Debug)]
pub(super) struct Floors(pub(super) [AtomicU64; 256]);

impl Default for Floors {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; 256])
    }
}

impl Floors {
    pub(super) fn of(&self, bucket: Bucket) -> &AtomicU64 {
        &self.0[usize::from(bucket.index())]
    }

    pub(super) fn note(&self, key: &Key, token: u64) {
        self.of(key.bucket()).fetch_max(token, Ordering::Relaxed);
    }

    /// A new token: above all that were seen or made here in the bucket, and at least `time` (µs).
    ///
    /// `None` if the next token would reach [`Token::LIMIT`].
    pub(super) fn next(&self, key: &Key, time: u64) -> Option<Token> {
        let next = |seen: u64| Some(seen.saturating_add(1).max(time)).filter(|next| *next < Token::LIMIT);
        let before = self.of(key.bucket()).fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        next(before).and_then(Token::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_rise_whatever_the_clock_does_and_end_below_the_limit() {
        let (floors, key) = (Floors::default(), Key::new("test", "proposed").unwrap());
        for (time, token) in [(1_000, 1_000), (1_000, 1_001), (400, 1_002), (1_002, 1_003), (5_000, 5_000)] {
            assert_eq!(floors.next(&key, time).map(Token::get), Some(token));
        }
        floors.note(&key, 6_000);
        assert_eq!(floors.next(&key, 5_000).map(Token::get), Some(6_001));
        floors.note(&key, Token::LIMIT - 2);
        assert_eq!(floors.next(&key, 0), Some(Token::MAX));
        assert_eq!(floors.next(&key, 0), None);
        assert_eq!(floors.next(&key, 0), None);
    }
}
