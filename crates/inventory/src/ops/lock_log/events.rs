use serde::{Deserialize, Serialize};

use super::entry::Entry;

/// The events of one instance, as another reads them and as the page gets them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Events {
    pub(super) events: Vec<Entry>,
    pub(super) newest: u64,
    /// Since when grants are kept: milliseconds since 1970.
    pub(super) since_ms: u64,
    /// How many grants since then were not kept, since there were more than 50 a second.
    pub(super) left_out: u64,
}

impl Events {
    /// The events after the one with this number.
    pub(super) fn after(mut self, known: u64) -> Self {
        self.events.retain(|entry| entry.id > known);
        self
    }
}
