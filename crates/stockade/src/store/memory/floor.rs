use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    resource::Bucket,
    store::{LockError, Token, Unavailable},
};

/// The highest token given out per bucket. The number of floors is fixed, as on Redis, so no memory is used per
/// resource name.
#[derive(Debug)]
pub(super) struct Floors([u64; 256]);

impl Default for Floors {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl Floors {
    /// The next token of a bucket: the wall clock in microseconds, but always above the last. `None` once the floor was
    /// raised to the end of the token range.
    pub(super) fn mint(&mut self, bucket: Bucket) -> Option<Token> {
        self.mint_at(bucket, micros_since_epoch())
    }

    fn mint_at(&mut self, bucket: Bucket, micros: u64) -> Option<Token> {
        let floor = &mut self.0[usize::from(bucket.index())];
        let token = Token::new(micros.max(*floor + 1))?;
        *floor = token.get();
        Some(token)
    }

    pub(super) fn raise(&mut self, bucket: Bucket, token: Token) {
        let floor = &mut self.0[usize::from(bucket.index())];
        *floor = token.get().max(*floor);
    }
}

/// The error when no token is left. Only a floor that was seeded near 2^53 (as microseconds the year 2255) causes it.
pub(super) fn tokens_exhausted() -> LockError {
    LockError::Unavailable { reason: Unavailable::Refused, retry_after: Duration::from_secs(60) }
}

fn micros_since_epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_steps_back_does_not_lower_tokens() {
        let mut floors = Floors::default();
        let bucket = Bucket::of("stock:1");
        assert_eq!(floors.mint_at(bucket, 1_000).map(Token::get), Some(1_000));
        assert_eq!(floors.mint_at(bucket, 400).map(Token::get), Some(1_001));
        assert_eq!(floors.mint_at(bucket, 1_001).map(Token::get), Some(1_002));
        assert_eq!(floors.mint_at(bucket, 5_000).map(Token::get), Some(5_000));
    }

    #[test]
    fn a_floor_at_the_end_of_the_range_mints_no_more() {
        let mut floors = Floors::default();
        let bucket = Bucket::of("stock:1");
        floors.raise(bucket, Token::new(Token::LIMIT - 2).unwrap());
        assert_eq!(floors.mint_at(bucket, 1).map(Token::get), Some(Token::LIMIT - 1));
        assert_eq!(floors.mint_at(bucket, 1), None);
    }
}
