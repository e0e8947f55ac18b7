use std::sync::{Arc, Mutex, PoisonError};

/// Which run of which server each connection leads to. The same server under two addresses would be half a quorum by
/// itself.
#[derive(Debug)]
pub(super) struct Servers(Mutex<Vec<Option<Arc<str>>>>);

impl Servers {
    pub(super) fn new(count: usize) -> Self {
        Self(Mutex::new(vec![None; count]))
    }

    /// `false` when another of the connections leads there.
    pub(super) fn claim(&self, node: usize, run_id: &Arc<str>) -> bool {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = servers.iter().enumerate().any(|(other, run)| other != node && run.as_ref() == Some(run_id));
        if !taken && let Some(run) = servers.get_mut(node) {
            *run = Some(Arc::clone(run_id));
        }
        !taken
    }

    pub(super) fn leave(&self, node: usize) {
        if let Some(run) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(node) {
            *run = None;
        }
    }
}
