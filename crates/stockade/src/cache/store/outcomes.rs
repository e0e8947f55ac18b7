use std::sync::Arc;

use crate::{cache::CacheError, redis::LinkError};

/// The outcome for each of several keys or tags, in their order.
pub(crate) type Outcomes<T> = Vec<Result<T, NotTaken>>;

/// Why a key or a tag was not invalidated.
#[derive(Debug)]
pub(crate) struct NotTaken {
    pub(crate) error: CacheError,
    /// Whether the store answered and refused only this key or tag. Others may still be accepted.
    pub(crate) refused: bool,
}

impl From<LinkError> for NotTaken {
    fn from(error: LinkError) -> Self {
        // These concern one key: no permission, a script that failed on the data it found, a reply that can't be read.
        // With other codes (LOADING, READONLY, MISCONF and so on) the server says that it accepts nothing now.
        let refused = match &error {
            LinkError::Refused { code } => ["NOPERM", "WRONGTYPE", "ERR"].contains(&code.as_str()),
            LinkError::Protocol { .. } => true,
            _ => false,
        };
        Self { error: CacheError::Unavailable(Arc::new(error)), refused }
    }
}
