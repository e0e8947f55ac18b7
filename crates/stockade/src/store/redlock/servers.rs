use std::sync::Arc;

use parking_lot::Mutex;

use crate::redis::process_of;

/// The run of the server that each connection leads to.
///
/// A server that is named twice, under two addresses, would count twice towards a quorum.
#[derive(Debug)]
pub(super) struct Servers(Mutex<Vec<Option<Arc<str>>>>);

impl Servers {
    pub(super) fn new(count: usize) -> Self {
        Self(Mutex::new(vec![None; count]))
    }

    /// Returns `false` if another connection leads to the same server.
    pub(super) fn claim(&self, node: usize, run_id: &Arc<str>) -> bool {
        let mut servers = self.0.lock();
        let is_same = |run: &Option<Arc<str>>| run.as_deref().map(process_of) == Some(process_of(run_id));
        let taken = servers.iter().enumerate().any(|(other, run)| other != node && is_same(run));
        if !taken && let Some(run) = servers.get_mut(node) {
            *run = Some(Arc::clone(run_id));
        }
        !taken
    }

    pub(super) fn leave(&self, node: usize) {
        if let Some(run) = self.0.lock().get_mut(node) {
            *run = None;
        }
    }
}
