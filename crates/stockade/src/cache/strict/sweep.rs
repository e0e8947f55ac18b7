//! Announcements whose writer died before it ended them, and whose key nobody reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Serialize, de::DeserializeOwned};

use super::intent::Intent;
use crate::{
    cache::{CacheError, core::Core, invalidation::NotTaken},
    resource::{Key, Resource},
};

/// Announcements that are looked at together.
const PAGE: usize = 256;
/// How many pages are looked at in one round, as long as there is something to end.
const PAGES: usize = 16;

/// How far the announcements of a cache have been looked at.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The rank of the first that is looked at next.
    from: usize,
    /// Intents whose transaction was over when they were looked at last. A writer that lives ends its own meanwhile.
    over: BTreeSet<Arc<str>>,
}

impl Sweep {
    fn from(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).from
    }

    /// Notes which of `page` are over; those that are to be ended, and whether to go on to the next page.
    fn looked(&self, page: Vec<(Key, Intent)>, over: &BTreeSet<Arc<str>>) -> (Vec<(Key, Intent)>, bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (length, known) = (page.len(), std::mem::take(&mut state.over));
        let is_over = |intent: &Intent| over.contains(&intent.id);
        let mut is_new = false;
        for (_, intent) in page.iter().filter(|(_, intent)| is_over(intent)) {
            is_new |= !known.contains(&intent.id);
            state.over.insert(Arc::clone(&intent.id));
        }
        let due: Vec<_> =
            page.into_iter().filter(|(_, intent)| is_over(intent) && known.contains(&intent.id)).collect();
        // What is over for the first time is looked at again, where it is now.
        if !is_new {
            state.from = if length < PAGE { 0 } else { state.from + length - due.len() };
        }
        let goes_on = !is_new && !due.is_empty();
        (due, goes_on)
    }
}

impl<K, V> Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Ends the announcements whose transaction was over in the last round, too, as far as it comes in this one.
    pub(crate) async fn sweep_announced(&self) -> Result<(), CacheError> {
        let Some(strict) = &self.settings.strict else { return Ok(()) };
        for _ in 0..PAGES {
            let page = self.store.announced(strict.sweep.from(), PAGE).await?;
            let intents = page.iter().map(|(_, intent)| intent.clone()).collect();
            let over = strict.over(intents).await.map_err(CacheError::Load)?;
            let over = over.into_iter().map(|intent| intent.id).collect();
            let (due, goes_on) = strict.sweep.looked(page, &over);
            let mut by_intent: BTreeMap<Arc<str>, Vec<Key>> = BTreeMap::new();
            for (key, intent) in due {
                by_intent.entry(intent.id).or_default().push(key);
            }
            for (id, keys) in by_intent {
                tracing::info!(
                    cache = self.settings.name,
                    keys = keys.len(),
                    "ending the intents of a writer that died"
                );
                for outcome in self.end_all(&keys, &id).await {
                    outcome.map_err(|NotTaken { error, .. }| error)?;
                }
            }
            if !goes_on {
                break;
            }
        }
        Ok(())
    }
}
