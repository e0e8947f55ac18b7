use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

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
        self.0.lock().insert(name.clone()).then(|| Claim { claims: Arc::clone(self), name })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.0.lock().remove(&self.name);
    }
}
