//! The spans of `tracing` that say where the time of a request goes. All are at level `debug`.
//!
//! A span carries kinds, modes and tokens, and no names of resources: what a key names may be somebody's secret.

use tracing::{Span, debug_span};

use crate::{
    resource::Label,
    store::{Mode, Token},
};

/// From the attempt to its end, granted or refused.
pub(crate) fn lock_wait(lock: &Label, mode: Mode) -> Span {
    debug_span!("lock.wait", lock = %lock, mode = mode.as_str())
}

/// From the grant to the release.
pub(crate) fn lock_hold(lock: &Label, mode: Mode, token: Token) -> Span {
    debug_span!("lock.hold", lock = %lock, mode = mode.as_str(), token = %token)
}

/// One call of the application's loader.
pub(crate) fn cache_load(cache: &str, keys: usize) -> Span {
    debug_span!("cache.load", cache, keys)
}
