use std::{sync::Arc, time::Duration};

use super::Unit;
use crate::{lock::Unavailable, redis::LinkError};

/// Why a classic lock was not taken, or not released.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetnxError {
    /// The key is not allowed for a classic lock.
    #[error("the key {0}")]
    Key(&'static str),
    /// The Redis is a cluster.
    #[error("classic locks need a single Redis or one behind sentinels, not a cluster")]
    Cluster,
    /// A duration is outside its limits.
    #[error("the {what} is {given:?}: it must be within {min:?} and {max:?}")]
    Duration {
        /// Which one: `lease` or `wait`.
        what: &'static str,
        /// What was asked for.
        given: Duration,
        /// The least allowed.
        min: Duration,
        /// The most allowed.
        max: Duration,
    },
    /// The wait ended while others held the lock. With a wait of zero: somebody holds the lock.
    #[error("waited {waited:?} for the lock: retry later or wait longer")]
    Timeout {
        /// How long the attempt waited.
        waited: Duration,
        /// How long until the present holder's time is over, by the clock of this process.
        remaining: Duration,
    },
    /// The key holds something other than a time in the configured unit. Its value was not changed.
    #[error("the key holds no time in {}: is it of another program, or in another unit?", .0.name())]
    Value(Unit),
    /// Redis gave no usable answer. The commands that were sent may have taken the lock, until its time is over.
    #[error("Redis is unavailable ({reason}): retry in {retry_after:?}")]
    Unavailable {
        /// What was wrong.
        reason: Unavailable,
        /// When a retry makes sense.
        retry_after: Duration,
    },
    /// The locks were shut down.
    #[error("the locks are shutting down: no new grants")]
    ShuttingDown,
}

impl SetnxError {
    /// `unfit` says why the server can't be used, if the link knows.
    pub(super) fn of(error: &LinkError, unit: Unit, unfit: Option<Arc<str>>) -> Self {
        if matches!(error, LinkError::Refused { code } if code == "WRONGTYPE") {
            return Self::Value(unit);
        }
        let (reason, retry_after) = Unavailable::of(error, unfit);
        Self::Unavailable { reason, retry_after }
    }
}
