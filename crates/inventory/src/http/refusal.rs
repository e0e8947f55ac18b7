use std::time::Duration;

use serde::{Serialize, Serializer};

use super::Problem;

/// When a retry makes sense. Default 1 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry(pub Duration);

impl Default for Retry {
    fn default() -> Self {
        Self(Duration::from_secs(1))
    }
}

/// What every client of a refused request wants to know.
#[derive(Clone, Copy)]
pub(super) struct Refusal {
    /// Whether the request had an effect; `None` when nobody can say.
    applied: Option<bool>,
    /// When a retry makes sense; `None` where a blind retry could apply it twice.
    retry_after: Option<Duration>,
}

impl Refusal {
    pub(super) fn of(problem: &Problem) -> Self {
        let applied = match problem {
            // A fault of the service may show after its commit.
            Problem::OutcomeUnknown | Problem::Internal => None,
            _ => Some(false),
        };
        let retry_after = match problem {
            Problem::LockTimeout(retry)
            | Problem::QueueFull(retry)
            | Problem::LockStoreUnavailable(retry)
            | Problem::LoadShed(retry) => Some(retry.0),
            Problem::FenceStale
            | Problem::FenceBusy
            | Problem::LeaseLost
            | Problem::DatabaseUnavailable(_)
            | Problem::WarmingUp
            | Problem::ShuttingDown => Some(Retry::default().0),
            Problem::OutcomeUnknown
            | Problem::BadRequest(_)
            | Problem::Unauthorized
            | Problem::NotFound(_)
            | Problem::MethodNotAllowed
            | Problem::BodyTimeout
            | Problem::InsufficientStock { .. }
            | Problem::PreconditionFailed(_)
            | Problem::BodyTooLarge
            | Problem::UnsupportedMediaType
            | Problem::Unprocessable(_)
            | Problem::SoldOut
            | Problem::LimitReached
            | Problem::SaleClosed
            | Problem::SaleOpen
            | Problem::SameSku
            | Problem::IdempotencyMismatch
            | Problem::Internal
            | Problem::NestedLock => None,
        };
        Self { applied, retry_after }
    }

    /// What `Retry-After` says: rounded up and never zero, since a retry "in 0 seconds" is no relief.
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
            map.serialize_entry("retry_after_ms", &u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX))?;
        }
        map.end()
    }
}
