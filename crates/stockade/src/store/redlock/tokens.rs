use std::sync::atomic::Ordering;

use crate::{
    resource::Key,
    store::{Token, redis::parts::Floors},
};

impl Floors {
    /// A new token: above all that this process has seen or proposed in the bucket, and at least `time` (µs).
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
    fn proposals_are_never_repeated_and_end_below_the_limit() {
        let (floors, key) = (Floors::default(), Key::new("test", "proposed").unwrap());
        assert_eq!(floors.next(&key, 100).map(Token::get), Some(100));
        assert_eq!(floors.next(&key, 100).map(Token::get), Some(101));
        floors.note(&key, 200);
        assert_eq!(floors.next(&key, 100).map(Token::get), Some(201));
        floors.note(&key, Token::LIMIT - 2);
        assert_eq!(floors.next(&key, 0), Some(Token::MAX));
        assert_eq!(floors.next(&key, 0), None);
        assert_eq!(floors.next(&key, 0), None);
    }
}
