use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    resource::{Bucket, Key},
    store::Token,
};

/// The highest token that this process has seen or proposed in each bucket.
///
/// The next proposal is above it. A server that comes back without its floors is seeded with it.
#[derive(Debug)]
pub(super) struct Tokens([AtomicU64; 256]);

impl Default for Tokens {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; 256])
    }
}

impl Tokens {
    fn of(&self, key: &Key) -> &AtomicU64 {
        &self.0[usize::from(key.bucket().index())]
    }

    pub(super) fn note(&self, key: &Key, seen: u64) {
        self.of(key).fetch_max(seen, Ordering::Relaxed);
    }

    /// A new token: above all that this process has seen or proposed in the bucket, and at least `time` (µs).
    ///
    /// `None` if the next token would reach [`Token::LIMIT`].
    pub(super) fn next(&self, key: &Key, time: u64) -> Option<Token> {
        let next = |seen: u64| Some(seen.saturating_add(1).max(time)).filter(|next| *next < Token::LIMIT);
        let floor = self.of(key);
        let before = floor.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        next(before).and_then(Token::new)
    }

    /// The highest token of every bucket that has one.
    pub(super) fn seen(&self) -> Vec<(Bucket, u64)> {
        let buckets = (0..=u8::MAX).map(Bucket::from_index).zip(&self.0);
        buckets.map(|(bucket, floor)| (bucket, floor.load(Ordering::Relaxed))).filter(|(_, floor)| *floor > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_are_never_repeated_and_end_below_the_limit() {
        let (tokens, key) = (Tokens::default(), Key::new("test", "proposed").unwrap());
        assert_eq!(tokens.next(&key, 100).map(Token::get), Some(100));
        assert_eq!(tokens.next(&key, 100).map(Token::get), Some(101));
        tokens.note(&key, 200);
        assert_eq!(tokens.next(&key, 100).map(Token::get), Some(201));
        tokens.note(&key, Token::LIMIT - 2);
        assert_eq!(tokens.next(&key, 0), Some(Token::MAX));
        assert_eq!(tokens.next(&key, 0), None);
        assert_eq!(tokens.next(&key, 0), None);
    }
}
