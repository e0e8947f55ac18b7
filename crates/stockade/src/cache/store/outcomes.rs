use crate::{
    cache::{CacheError, LoadError},
    redis::LinkError,
};

/// The outcome for each of several keys or tags, in their order.
pub(crate) type Outcomes<T> = Vec<Result<T, NotTaken>>;

/// Why a key or a tag was not invalidated.
#[derive(Debug)]
pub(crate) struct NotTaken {
    pub(crate) error: CacheError,
    pub(crate) fault: Fault,
}

/// Why a store has not taken an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store answered and refused only this key or tag. Others may still be accepted.
    Key,
    /// The store answered that it accepts nothing now.
    Store,
    /// The store did not answer.
    Silence,
}

impl From<LinkError> for NotTaken {
    fn from(error: LinkError) -> Self {
        // These concern one key: no permission, a script that failed on the data it found, a reply that can't be read.
        // With other codes (LOADING, READONLY, MISCONF and so on) the server says that it accepts nothing now.
        let fault = match &error {
            LinkError::Refused { code } if ["NOPERM", "WRONGTYPE", "ERR"].contains(&code.as_str()) => Fault::Key,
            LinkError::Refused { .. } => Fault::Store,
            LinkError::Protocol { .. } => Fault::Key,
            _ => Fault::Silence,
        };
        Self { error: CacheError::Unavailable(LoadError::new(error)), fault }
    }
}
