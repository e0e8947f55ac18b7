use std::{error::Error, fmt, ops::Deref, sync::Arc};

/// The error of a loader, shared by every caller that waited for the load. Dereferences to that error:
/// `error.downcast_ref::<sqlx::Error>()`.
///
/// It is no [`Error`] itself. So the [`source`](Error::source) of [`CacheError::Load`](super::CacheError::Load) is the
/// error of the loader. An `Arc<dyn Error>` would stand in its place and hide it.
#[derive(Clone)]
pub struct LoadError(Arc<dyn Error + Send + Sync>);

impl LoadError {
    /// Shares an error.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }
}

impl Deref for LoadError {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
