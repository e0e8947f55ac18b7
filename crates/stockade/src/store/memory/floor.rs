use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    resource::Key,
    store::{LockError, Token, Unavailable, floors::Floors},
};

/// The next token of a resource: the wall clock in microseconds, but always above the last. `None` once the floor was
/// raised to the end of the token range.
pub(super) fn minted(floors: &Floors, key: &Key) -> Option<Token> {
    floors.next(key, micros_since_epoch())
}

/// The error when no token is left. Only a floor that was seeded near 2^53 (as microseconds the year 2255) causes it.
pub(super) fn tokens_exhausted() -> LockError {
    LockError::Unavailable { reason: Unavailable::Refused, retry_after: Duration::from_secs(60) }
}

fn micros_since_epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
