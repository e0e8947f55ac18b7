use axum::{Extension, extract::State};
use stockade::{Fence, lock::MultiFence};

use super::{header::Header, operation::Operation};
use crate::{app::App, http::ProblemType};

/// The part of a handler's row that an extractor adds: what it reads from the request, and how it refuses one.
pub(in crate::http) trait Takes {
    fn takes(_operation: &mut Operation) {}
}

impl Takes for State<App> {}

/// The service put it there: no handler reads it from the request.
impl<T> Takes for Extension<T> {}

/// A transaction under a fence.
impl Takes for Fence {
    fn takes(operation: &mut Operation) {
        operation.header(Header::FencingToken);
        operation.problems([
            ProblemType::FenceStale,
            ProblemType::FenceBusy,
            ProblemType::LeaseLost,
            ProblemType::OutcomeUnknown,
            ProblemType::LockStoreUnavailable,
            ProblemType::StrictCacheUnavailable,
            ProblemType::DatabaseUnavailable,
        ]);
    }
}

impl Takes for MultiFence {
    fn takes(operation: &mut Operation) {
        Fence::takes(operation);
    }
}
