//! Ends the intents of transactions that are over but did not end them themselves.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    cache::{
        CacheError,
        core::{CacheKey, CacheValue, Core},
        store::NotTaken,
        strict::{Intent, PAGE},
    },
    resource::Key,
};

/// How many pages one round looks at. It stops earlier at a page without an intent to end.
const PAGES: usize = 16;

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    /// Ends overdue intents in the background, once the database says that their transaction is over.
    pub(crate) fn ask_about(self: &Arc<Self>, name: &Key, overdue: Vec<Intent>) {
        let due = self.settings.strict.as_ref().map(|strict| strict.due(overdue)).unwrap_or_default();
        if !due.is_empty() {
            let (core, name) = (Arc::clone(self), name.clone());
            self.spawn(async move {
                // The database may not answer. If the cache ends first, the next reader asks.
                let _ = core.loader.aborting.run_until_cancelled(core.settle(&name, due)).await;
            });
        }
    }

    /// Ends those of these intents whose transaction is over.
    async fn settle(&self, name: &Key, overdue: Vec<Intent>) {
        let Some(strict) = &self.settings.strict else { return };
        match strict.over(overdue).await {
            Ok(over) => {
                for intent in over {
                    tracing::info!(cache = self.settings.name, "ending the intent of a transaction that is over");
                    for NotTaken { error, .. } in
                        self.end_all(std::slice::from_ref(name), &intent.id).await.into_iter().filter_map(Result::err)
                    {
                        tracing::debug!(%error, "the next reader tries again");
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "the fate of a transaction is not known yet"),
        }
    }

    /// Ends the intents whose transaction was over in this round and in the one before, on as many pages as one round
    /// looks at.
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
