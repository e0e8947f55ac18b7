use axum::http::StatusCode;

/// What kind of refusal an answer is: the closed set behind `type` in problem+json (RFC 9457).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// The request names no resource that could be locked, or its body broke off. 400.
    BadRequest,
    /// There is no such row. 404.
    NotFound,
    /// The body did not arrive in time. 408.
    BodyTimeout,
    /// The body is over the limit. 413.
    BodyTooLarge,
    /// Somebody else held the resource for the whole wait. 423.
    LockTimeout,
    /// As many as allowed are waiting for the resource already. 429.
    QueueFull,
    /// This request holds the resource already: two locks on one route would wait for each other. 500.
    NestedLock,
    /// The route is set up wrongly; the log says how. 500.
    Internal,
    /// The handler answered with a protocol switch, which would leave the lock behind. 501.
    UpgradeRefused,
    /// The lock store gives no usable answer. 503.
    LockStoreUnavailable,
    /// The database has seen a later holder of the resource. 503.
    FenceStale,
    /// Another transaction held a row of the resource for too long. 503.
    FenceBusy,
    /// The database gives no usable answer, or is not ready for this program. 503.
    DatabaseUnavailable,
    /// A strict cache could not be told of the write, which was therefore rolled back. 503.
    StrictCacheUnavailable,
    /// The lock was lost, or held for as long as allowed, before anything was committed. 503.
    LeaseLost,
    /// A commit was sent whose outcome is not known. 503.
    OutcomeUnknown,
    /// More loads are asked of the database than are allowed. 503.
    LoadShed,
    /// The process is shutting down. 503.
    ShuttingDown,
}

impl Problem {
    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::LockTimeout => StatusCode::LOCKED,
            Self::QueueFull => StatusCode::TOO_MANY_REQUESTS,
            Self::NestedLock | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::UpgradeRefused => StatusCode::NOT_IMPLEMENTED,
            Self::LockStoreUnavailable
            | Self::FenceStale
            | Self::FenceBusy
            | Self::DatabaseUnavailable
            | Self::StrictCacheUnavailable
            | Self::LeaseLost
            | Self::OutcomeUnknown
            | Self::LoadShed
            | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The last part of the problem type `/problems/<slug>`.
    #[must_use]
    pub fn slug(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::NotFound => "not-found",
            Self::BodyTimeout => "body-timeout",
            Self::BodyTooLarge => "body-too-large",
            Self::LockTimeout => "lock-timeout",
            Self::QueueFull => "queue-full",
            Self::NestedLock => "nested-lock",
            Self::Internal => "internal",
            Self::UpgradeRefused => "upgrade-refused",
            Self::LockStoreUnavailable => "lock-store-unavailable",
            Self::FenceStale => "fence-stale",
            Self::FenceBusy => "fence-busy",
            Self::DatabaseUnavailable => "database-unavailable",
            Self::StrictCacheUnavailable => "strict-cache-unavailable",
            Self::LeaseLost => "lease-lost",
            Self::OutcomeUnknown => "outcome-unknown",
            Self::LoadShed => "load-shed",
            Self::ShuttingDown => "shutting-down",
        }
    }

    /// One sentence for people, the same for every occurrence.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request can't be read",
            Self::NotFound => "There is no such resource",
            Self::BodyTimeout => "The body did not arrive in time",
            Self::BodyTooLarge => "The body is too large",
            Self::LockTimeout => "The resource is in use",
            Self::QueueFull => "Too many requests wait for the resource",
            Self::NestedLock => "The resource is locked twice by one request",
            Self::Internal => "Something went wrong",
            Self::UpgradeRefused => "The protocol can't be switched under a lock",
            Self::LockStoreUnavailable => "Locks are not available",
            Self::FenceStale => "Another holder of the resource came first",
            Self::FenceBusy => "Another transaction on the resource is not done yet",
            Self::DatabaseUnavailable => "The database is not available or not ready",
            Self::StrictCacheUnavailable => "The cache could not be told of the write",
            Self::LeaseLost => "The lock was lost",
            Self::OutcomeUnknown => "It is not known whether the change was applied",
            Self::LoadShed => "Too much is asked of the database",
            Self::ShuttingDown => "The service is shutting down",
        }
    }

    /// What the client may do, in a few words.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::BadRequest => "check the path, the headers and the body, and send the request again",
            Self::NotFound => "check the path, or create the resource first",
            Self::BodyTimeout => "nothing was changed: send the body faster",
            Self::BodyTooLarge => "nothing was changed: send less",
            Self::UpgradeRefused => "send the request without an upgrade",
            Self::NestedLock | Self::Internal => "the fault is in the service: tell its operators when it happened",
            Self::OutcomeUnknown => "find out whether the change was applied before you send the request again",
            Self::LockTimeout
            | Self::QueueFull
            | Self::LockStoreUnavailable
            | Self::FenceStale
            | Self::FenceBusy
            | Self::DatabaseUnavailable
            | Self::StrictCacheUnavailable
            | Self::LeaseLost
            | Self::LoadShed
            | Self::ShuttingDown => "nothing was changed: send the request again after the time in Retry-After",
        }
    }
}
