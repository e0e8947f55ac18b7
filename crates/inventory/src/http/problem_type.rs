use axum::http::StatusCode;

const TRY_LATER: &str = "nothing was applied; try again later";

/// Whether a problem goes away by itself.
const AGAIN: bool = true;
const FINAL: bool = false;

/// The table of problem types: the status, whether it goes away by itself, the last part of the URI, the title and the
/// usual detail of each.
macro_rules! problem_types {
    ($($variant:ident, $status:ident, $goes_away:ident, $name:literal, $title:literal, $detail:expr;)*) => {
        /// The type of a problem: one of a closed set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ProblemType {
            $(#[doc = concat!("`", $name, "`: ", $title, ".")] $variant,)*
        }

        impl ProblemType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            const fn row(self) -> (StatusCode, bool, &'static str, &'static str, &'static str) {
                match self {
                    $(Self::$variant => (StatusCode::$status, $goes_away, $name, $title, $detail),)*
                }
            }
        }
    };
}

problem_types! {
    BadRequest, BAD_REQUEST, FINAL, "bad-request", "The request can't be read", "";
    Unauthorized, UNAUTHORIZED, FINAL, "unauthorized", "A valid bearer token is needed", "";
    NotFound, NOT_FOUND, FINAL, "not-found", "There is no such thing", "";
    UnknownScheme, NOT_FOUND, FINAL, "unknown-scheme", "The lab here does not sell by this scheme", "";
    MethodNotAllowed, METHOD_NOT_ALLOWED, FINAL, "method-not-allowed", "The method is not allowed here", "";
    BodyTimeout, REQUEST_TIMEOUT, FINAL, "body-timeout", "The body came too slowly", "";
    InsufficientStock, CONFLICT, FINAL, "insufficient-stock", "Fewer are on hand than asked for", "";
    SoldOut, CONFLICT, FINAL, "sold-out", "Fewer are left in the sale than asked for",
        "nothing was reserved; ask for fewer, or look at the sale";
    LimitReached, CONFLICT, FINAL, "limit-reached", "The customer would have more than the sale gives to one",
        "nothing was reserved; `per_customer` of the sale is the limit";
    SaleClosed, CONFLICT, FINAL, "sale-closed", "The sale takes no reservation",
        "nothing was reserved; the sale has ended";
    SaleOpen, CONFLICT, FINAL, "sale-open", "A sale of this SKU is open", "close it first";
    AttackRunning, CONFLICT, FINAL, "attack-running", "An attack is under way",
        "stop it first, or wait: none takes longer than 30 s";
    PreconditionFailed, PRECONDITION_FAILED, FINAL, "precondition-failed", "The precondition does not hold", "";
    BodyTooLarge, PAYLOAD_TOO_LARGE, FINAL, "body-too-large", "The body is too large",
        "send at most 64 KiB";
    UnsupportedMediaType, UNSUPPORTED_MEDIA_TYPE, FINAL, "unsupported-media-type", "The body is not declared as JSON",
        "send application/json, not encoded";
    Unprocessable, UNPROCESSABLE_ENTITY, FINAL, "unprocessable", "The request is not allowed as it is", "";
    SameSku, UNPROCESSABLE_ENTITY, FINAL, "same-sku", "A transfer goes from one SKU to another",
        "`from` and `to` are the same SKU: name two";
    IdempotencyMismatch, UNPROCESSABLE_ENTITY, FINAL, "idempotency-mismatch",
        "The Idempotency-Key was used for another request", "use a new Idempotency-Key for a new request";
    LockTimeout, LOCKED, AGAIN, "lock-timeout", "Somebody else works on it", TRY_LATER;
    QueueFull, TOO_MANY_REQUESTS, AGAIN, "queue-full", "Too many wait for it", TRY_LATER;
    Internal, INTERNAL_SERVER_ERROR, FINAL, "internal", "Something went wrong inside", "";
    NestedLock, INTERNAL_SERVER_ERROR, FINAL, "nested-lock", "The route locks the same thing twice", "";
    LockStoreUnavailable, SERVICE_UNAVAILABLE, AGAIN, "lock-store-unavailable", "The lock store does not answer",
        TRY_LATER;
    CacheStoreUnavailable, SERVICE_UNAVAILABLE, AGAIN, "cache-store-unavailable", "The cache store does not answer",
        "other instances may still serve what is to be voided; repeat the request, which does no harm";
    StrictCacheUnavailable, SERVICE_UNAVAILABLE, AGAIN, "strict-cache-unavailable",
        "The cache could not be told of the write", TRY_LATER;
    FenceNotRaised, SERVICE_UNAVAILABLE, FINAL, "fence-not-raised", "The lock was taken, its fence not raised",
        "the lock was taken from its holders; until somebody writes under it again, they may still begin a \
        transaction: look at the lock, and if nobody holds it, force it again";
    FenceStale, SERVICE_UNAVAILABLE, AGAIN, "fence-stale", "A newer holder came first", TRY_LATER;
    FenceBusy, SERVICE_UNAVAILABLE, AGAIN, "fence-busy", "Another transaction is not done yet", TRY_LATER;
    LeaseLost, SERVICE_UNAVAILABLE, AGAIN, "lease-lost", "The lock was lost", TRY_LATER;
    OutcomeUnknown, SERVICE_UNAVAILABLE, FINAL, "outcome-unknown", "It is not known whether it was applied",
        "read it back before trying again, or repeat it with the same Idempotency-Key";
    LoadShed, SERVICE_UNAVAILABLE, AGAIN, "load-shed", "Too much at once", TRY_LATER;
    DatabaseUnavailable, SERVICE_UNAVAILABLE, AGAIN, "database-unavailable",
        "The database is not available or not ready", TRY_LATER;
    WarmingUp, SERVICE_UNAVAILABLE, AGAIN, "warming-up", "The instance is warming its cache",
        "it serves already, and is ready once its warm-up has ended";
    ShuttingDown, SERVICE_UNAVAILABLE, AGAIN, "shutting-down", "The instance is going away", TRY_LATER;
}

impl ProblemType {
    /// The status that a problem of this type is answered with.
    #[must_use]
    pub fn status(self) -> StatusCode {
        self.row().0
    }

    /// Whether the same request may be granted a moment later, and sending it again applies nothing twice.
    pub(super) fn goes_away(self) -> bool {
        self.row().1
    }

    /// The last part of its URI.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The meaning of the type, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().3
    }

    /// The detail of a problem that carries none of its own; may be empty.
    pub(super) fn usual_detail(self) -> &'static str {
        self.row().4
    }
}
