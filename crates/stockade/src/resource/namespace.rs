use std::{fmt, sync::Arc};

use super::{KeyError, is_name};

/// The first part of every key and channel: `<namespace>:v1:`, with the version of the key layout behind the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(Arc<str>);

impl Namespace {
    /// Checks the name: `[a-z0-9_-]+`.
    pub(crate) fn new(name: &str) -> Result<Self, KeyError> {
        if !is_name(name) {
            return Err(KeyError::Name(name.to_owned()));
        }
        Ok(Self(name.into()))
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("stockade".into())
    }
}

/// Writes the prefix, `<namespace>:v1:`.
impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:v1:", self.0)
    }
}
