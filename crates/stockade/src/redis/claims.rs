use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Names that at most one living object may use on one [`Redis`](super::Redis).
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashSet<String>>);

/// A name in use, until dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Arc<Claims>,
    name: String,
}

impl Claims {
    /// `None` when the name is taken.
    pub(crate) fn claim(self: &Arc<Self>, name: String) -> Option<Claim> {
        self.lock().insert(name.clone()).then(|| Claim { claims: Arc::clone(self), name })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.name);
    }
}
