use axum::http::StatusCode;

/// What the client may do after a refusal that allows a retry.
const RETRY: &str = "nothing was changed: send the request again after the time in Retry-After";
pub(super) const FAULT: &str = "the fault is in the service: tell its operators when it happened";

/// The table of refusals: the documentation, the status, the last part of the URI and the title of each, and what the
/// client may do instead of a retry.
macro_rules! problems {
    ($(#[doc = $doc:literal] $variant:ident, $status:ident, $slug:literal, $title:literal, $instead:expr;)*) => {
        /// What kind of refusal an answer is: the closed set behind `type` in problem+json (RFC 9457).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Problem {
            $(#[doc = $doc] $variant,)*
        }

        impl Problem {
            fn row(self) -> (StatusCode, &'static str, &'static str, Option<&'static str>) {
                match self {
                    $(Self::$variant => (StatusCode::$status, $slug, $title, $instead),)*
                }
            }
        }
    };
}

problems! {
    /// The request names no resource that could be locked, or its body broke off. 400.
    BadRequest, BAD_REQUEST, "bad-request", "The request can't be read",
        Some("check the path, the headers and the body, and send the request again");
    /// There is no such row. 404.
    NotFound, NOT_FOUND, "not-found", "There is no such resource", Some("check the path, or create the resource first");
    /// The body did not arrive in time. 408.
    BodyTimeout, REQUEST_TIMEOUT, "body-timeout", "The body did not arrive in time",
        Some("nothing was changed: send the body faster");
    /// The body is over the limit. 413.
    BodyTooLarge, PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large", Some("nothing was changed: send less");
    /// Somebody else held the resource for the whole wait. 423.
    LockTimeout, LOCKED, "lock-timeout", "The resource is in use", None;
    /// As many as allowed are waiting for the resource already. 429.
    QueueFull, TOO_MANY_REQUESTS, "queue-full", "Too many requests wait for the resource", None;
    /// This request holds the resource already: two locks on one route would wait for each other. 500.
    NestedLock, INTERNAL_SERVER_ERROR, "nested-lock", "The resource is locked twice by one request", Some(FAULT);
    /// The route is set up wrongly; the log says how. 500.
    Internal, INTERNAL_SERVER_ERROR, "internal", "Something went wrong", Some(FAULT);
    /// The handler answered with a protocol switch, which would leave the lock behind. 501.
    UpgradeRefused, NOT_IMPLEMENTED, "upgrade-refused", "The protocol can't be switched under a lock",
        Some("send the request without an upgrade");
    /// The lock store gives no usable answer. 503.
    LockStoreUnavailable, SERVICE_UNAVAILABLE, "lock-store-unavailable", "Locks are not available", None;
    /// The database has seen a later holder of the resource. 503.
    FenceStale, SERVICE_UNAVAILABLE, "fence-stale", "Another holder of the resource came first", None;
    /// Another transaction held a row of the resource for too long. 503.
    FenceBusy, SERVICE_UNAVAILABLE, "fence-busy", "Another transaction on the resource is not done yet", None;
    /// The database gives no usable answer, or is not ready for this program. 503.
    DatabaseUnavailable, SERVICE_UNAVAILABLE, "database-unavailable", "The database is not available or not ready",
        None;
    /// A strict cache or a filter could not be told of the write, which was therefore rolled back. 503.
    StrictCacheUnavailable, SERVICE_UNAVAILABLE, "strict-cache-unavailable", "The cache could not be told of the write",
        None;
    /// The lock was lost, or held for as long as allowed, before anything was committed. 503.
    LeaseLost, SERVICE_UNAVAILABLE, "lease-lost", "The lock was lost", None;
    /// A commit was sent whose outcome is not known. 503.
    OutcomeUnknown, SERVICE_UNAVAILABLE, "outcome-unknown", "It is not known whether the change was applied",
        Some("find out whether the change was applied before you send the request again");
    /// More loads are asked of the database than are allowed. 503.
    LoadShed, SERVICE_UNAVAILABLE, "load-shed", "Too much is asked of the database", None;
    /// The process is shutting down. 503.
    ShuttingDown, SERVICE_UNAVAILABLE, "shutting-down", "The service is shutting down", None;
}

impl Problem {
    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        self.row().0
    }

    /// The last part of the problem type `/problems/<slug>`.
    #[must_use]
    pub fn slug(self) -> &'static str {
        self.row().1
    }

    /// One sentence for people, the same for every occurrence.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// What the client may do, in a few words.
    #[must_use]
    pub fn detail(self) -> &'static str {
        self.row().3.unwrap_or(RETRY)
    }

    /// Whether the same request may succeed later. Otherwise it would fail again, or could be applied twice after an
    /// unknown outcome.
    pub(super) fn allows_retry(self) -> bool {
        self.row().3.is_none()
    }
}
