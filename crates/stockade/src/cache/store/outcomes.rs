use std::sync::Arc;

use crate::{cache::CacheError, redis::LinkError};

/// What became of each of several keys or tags, in their order.
pub(crate) type Outcomes<T> = Vec<Result<T, NotTaken>>;

/// Why a key or a tag was not invalidated.
#[derive(Debug)]
pub(crate) struct NotTaken {
    pub(crate) error: CacheError,
    /// The store answered, and refused this one: it says nothing about others.
    pub(crate) refused: bool,
}

impl From<LinkError> for NotTaken {
    fn from(error: LinkError) -> Self {
        // What concerns one key: no permission, a script that failed over what it found, a reply that can't be read. Of
        // other codes the server says that it takes nothing now: LOADING, READONLY, MISCONF and the like.
        let refused = match &error {
            LinkError::Refused { code } => ["NOPERM", "WRONGTYPE", "ERR"].contains(&code.as_str()),
            LinkError::Protocol { .. } => true,
            _ => false,
        };
        Self { error: CacheError::Unavailable(Arc::new(error)), refused }
    }
}
