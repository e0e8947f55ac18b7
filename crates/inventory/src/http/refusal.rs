use std::time::Duration;

use serde::{Serialize, Serializer};

use super::ProblemType;
use crate::millis::millis;

/// When to retry after a problem that says nothing about time.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// The facts that the client of a refused request needs in order to go on.
#[derive(Clone, Copy)]
pub(super) struct Refusal {
    /// Whether the request had an effect; `None` when nobody can say.
    applied: Option<bool>,
    /// When a retry makes sense; `None` if it would not help, or could apply the request twice.
    retry_after: Option<Duration>,
}

impl Refusal {
    /// `after` is when a retry makes sense, for a problem that goes away by itself.
    pub(super) fn of(problem_type: ProblemType, after: Duration) -> Self {
        let applied = match problem_type {
            // A fault of the service may show after its commit, and Redis may do what it did not confirm.
            ProblemType::OutcomeUnknown | ProblemType::Internal | ProblemType::CacheStoreUnavailable => None,
            ProblemType::FenceNotRaised => Some(true),
            _ => Some(false),
        };
        Self { applied, retry_after: problem_type.goes_away().then_some(after) }
    }

    /// The value of `Retry-After`, rounded up and never zero: a retry "in 0 seconds" would not relieve the service.
    pub(super) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(|after| (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1))
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("applied", &self.applied)?;
        if let Some(retry_after) = self.retry_after {
            map.serialize_entry("retry_after_ms", &millis(retry_after))?;
        }
        map.end()
    }
}
