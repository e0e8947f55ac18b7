use axum::http::StatusCode;

/// The table of problem types: the status, the last part of the URI and the title of each.
macro_rules! problem_types {
    ($($variant:ident, $status:ident, $name:literal, $title:literal;)*) => {
        /// The type of a problem: one of a closed set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ProblemType {
            $(#[doc = concat!("`", $name, "`: ", $title, ".")] $variant,)*
        }

        impl ProblemType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            const fn row(self) -> (StatusCode, &'static str, &'static str) {
                match self {
                    $(Self::$variant => (StatusCode::$status, $name, $title),)*
                }
            }
        }
    };
}

problem_types! {
    BadRequest, BAD_REQUEST, "bad-request", "The request can't be read";
    Unauthorized, UNAUTHORIZED, "unauthorized", "A valid bearer token is needed";
    NotFound, NOT_FOUND, "not-found", "There is no such thing";
    UnknownScheme, NOT_FOUND, "unknown-scheme", "The lab here does not sell by this scheme";
    MethodNotAllowed, METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not allowed here";
    BodyTimeout, REQUEST_TIMEOUT, "body-timeout", "The body came too slowly";
    InsufficientStock, CONFLICT, "insufficient-stock", "Fewer are on hand than asked for";
    SoldOut, CONFLICT, "sold-out", "Fewer are left in the sale than asked for";
    LimitReached, CONFLICT, "limit-reached", "The customer would have more than the sale gives to one";
    SaleClosed, CONFLICT, "sale-closed", "The sale takes no reservation";
    SaleOpen, CONFLICT, "sale-open", "A sale of this SKU is open";
    AttackRunning, CONFLICT, "attack-running", "An attack is under way";
    PreconditionFailed, PRECONDITION_FAILED, "precondition-failed", "The precondition does not hold";
    BodyTooLarge, PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large";
    UnsupportedMediaType, UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body is not declared as JSON";
    Unprocessable, UNPROCESSABLE_ENTITY, "unprocessable", "The request is not allowed as it is";
    SameSku, UNPROCESSABLE_ENTITY, "same-sku", "A transfer goes from one SKU to another";
    IdempotencyMismatch, UNPROCESSABLE_ENTITY, "idempotency-mismatch", "The Idempotency-Key was used for another request";
    LockTimeout, LOCKED, "lock-timeout", "Somebody else works on it";
    QueueFull, TOO_MANY_REQUESTS, "queue-full", "Too many wait for it";
    Internal, INTERNAL_SERVER_ERROR, "internal", "Something went wrong inside";
    NestedLock, INTERNAL_SERVER_ERROR, "nested-lock", "The route locks the same thing twice";
    LockStoreUnavailable, SERVICE_UNAVAILABLE, "lock-store-unavailable", "The lock store does not answer";
    CacheStoreUnavailable, SERVICE_UNAVAILABLE, "cache-store-unavailable", "The cache store does not answer";
    StrictCacheUnavailable, SERVICE_UNAVAILABLE, "strict-cache-unavailable", "The cache could not be told of the write";
    FenceNotRaised, SERVICE_UNAVAILABLE, "fence-not-raised", "The lock was taken, its fence not raised";
    FenceStale, SERVICE_UNAVAILABLE, "fence-stale", "A newer holder came first";
    FenceBusy, SERVICE_UNAVAILABLE, "fence-busy", "Another transaction is not done yet";
    LeaseLost, SERVICE_UNAVAILABLE, "lease-lost", "The lock was lost";
    OutcomeUnknown, SERVICE_UNAVAILABLE, "outcome-unknown", "It is not known whether it was applied";
    LoadShed, SERVICE_UNAVAILABLE, "load-shed", "Too much at once";
    DatabaseUnavailable, SERVICE_UNAVAILABLE, "database-unavailable", "The database does not answer";
    WarmingUp, SERVICE_UNAVAILABLE, "warming-up", "The instance is warming its cache";
    ShuttingDown, SERVICE_UNAVAILABLE, "shutting-down", "The instance is going away";
}

impl ProblemType {
    /// The status that a problem of this type is answered with.
    #[must_use]
    pub fn status(self) -> StatusCode {
        self.row().0
    }

    /// The last part of its URI.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The meaning of the type, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().2
    }
}
