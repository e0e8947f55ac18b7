//! Finding the intents whose writer died before ending them, and whose key nobody reads.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;

use super::intent::Intent;
use crate::resource::Key;

/// How many intents are looked at together.
pub(crate) const PAGE: usize = 256;

/// How far the intents of a cache have been looked at.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The rank of the first intent of the next page.
    from: usize,
    /// The intents of the last page whose transaction was over. A writer that is alive ends its intent before the page
    /// is looked at again.
    over: BTreeSet<Arc<str>>,
}

impl Sweep {
    pub(crate) fn from(&self) -> usize {
        self.0.lock().from
    }

    /// Notes which intents of `page` are over. Returns the intents to end, and whether to look at the next page now.
    pub(crate) fn looked(&self, page: Vec<(Key, Intent)>, over: &BTreeSet<Arc<str>>) -> (Vec<(Key, Intent)>, bool) {
        let mut state = self.0.lock();
        let (length, known) = (page.len(), std::mem::take(&mut state.over));
        let is_over = |intent: &Intent| over.contains(&intent.id);
        let mut is_new = false;
        for (_, intent) in page.iter().filter(|(_, intent)| is_over(intent)) {
            is_new |= !known.contains(&intent.id);
            state.over.insert(Arc::clone(&intent.id));
        }
        let due: Vec<_> =
            page.into_iter().filter(|(_, intent)| is_over(intent) && known.contains(&intent.id)).collect();
        // If an intent is over for the first time, the next round looks at this page again.
        if !is_new {
            state.from = if length < PAGE { 0 } else { state.from + length - due.len() };
        }
        let goes_on = !is_new && !due.is_empty();
        (due, goes_on)
    }
}
