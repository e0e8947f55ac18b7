use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;

use super::sweep::Sweep;
use crate::{cache::LoadError, clock::Instant, resource::Key};

/// From this age on whoever meets an intent asks what became of its transaction.
pub(crate) const OVERDUE: Duration = Duration::from_secs(2);
/// How often one process asks about one intent.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The announcement of a transaction that is about to commit. While it stands, what it writes is neither served nor
/// stored by a strict cache.
///
/// It never ends by time: the commit may be held up for longer than any time that could be named. It ends when the
/// transaction says so, or when the database says that the transaction is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    /// Unique.
    pub(crate) id: Arc<str>,
    /// The transaction, as `pg_current_xact_id` names it.
    pub(crate) xid: Arc<str>,
}

impl Intent {
    /// A name for an intent whose transaction will be known later.
    pub(crate) fn random_id() -> Arc<str> {
        format!("{:032x}", rand::random::<u128>()).into()
    }
}

/// Tells for each transaction id whether that transaction is over, one way or the other.
pub(crate) type Fates = Arc<dyn Fn(Vec<Arc<str>>) -> BoxFuture<'static, Result<Vec<bool>, LoadError>> + Send + Sync>;

/// Tells whether a relay runs for the cache of this name, in any process.
pub(crate) type Relayed = Arc<dyn Fn(&'static str) -> BoxFuture<'static, Result<bool, LoadError>> + Send + Sync>;

/// Whether a cache is strict, and how it learns what became of intents whose transaction did not end them.
#[derive(Clone)]
pub(crate) struct Strict {
    fates: Fates,
    relayed: Relayed,
    /// The longest lifetime of a value: what a run of the store can have lost is made again for so long, and no value may
    /// outlive that.
    longest: Duration,
    asked: Arc<Mutex<HashMap<Arc<str>, Instant>>>,
    pub(crate) sweep: Arc<Sweep>,
}

impl Strict {
    pub(crate) fn new(fates: Fates, relayed: Relayed, longest: Duration) -> Self {
        Self { fates, relayed, longest, asked: Arc::default(), sweep: Arc::default() }
    }

    /// Whether a relay runs for this cache, in any process.
    pub(crate) async fn is_relayed(&self, cache: &'static str) -> Result<bool, LoadError> {
        (self.relayed)(cache).await
    }

    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// Those of `intents` that this process did not ask about within the last second.
    pub(crate) fn due(&self, intents: Vec<Intent>) -> Vec<Intent> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, at| at.elapsed() < ASK_EVERY);
        let now = Instant::now();
        intents.into_iter().filter(|intent| asked.insert(Arc::clone(&intent.id), now).is_none()).collect()
    }

    /// Those of `intents` whose transaction is over.
    pub(crate) async fn over(&self, intents: Vec<Intent>) -> Result<Vec<Intent>, LoadError> {
        // A transaction has an intent for each key.
        let xids: BTreeSet<_> = intents.iter().map(|intent| Arc::clone(&intent.xid)).collect();
        let fates = (self.fates)(xids.iter().map(Arc::clone).collect()).await?;
        let over: BTreeSet<_> = xids.into_iter().zip(fates).filter_map(|(xid, over)| over.then_some(xid)).collect();
        Ok(intents.into_iter().filter(|intent| over.contains(&intent.xid)).collect())
    }
}

impl fmt::Debug for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Strict")
    }
}

/// The intents of a cache that lives in one process only.
#[derive(Debug, Default)]
pub(crate) struct Intents(Mutex<HashMap<Key, Vec<(Intent, Instant)>>>);

impl Intents {
    fn table(&self) -> MutexGuard<'_, HashMap<Key, Vec<(Intent, Instant)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, keys: &[Key], intent: &Intent) {
        let mut table = self.table();
        for key in keys {
            table.entry(key.clone()).or_default().push((intent.clone(), Instant::now()));
        }
    }

    /// Whether all were there.
    pub(crate) fn end(&self, keys: &[Key], id: &str) -> bool {
        let mut table = self.table();
        let mut all = true;
        for key in keys {
            let Some(intents) = table.get_mut(key) else {
                all = false;
                continue;
            };
            let before = intents.len();
            intents.retain(|(intent, _)| &*intent.id != id);
            all &= intents.len() < before;
            if intents.is_empty() {
                table.remove(key);
            }
        }
        all
    }

    /// So many that stand, from this one on.
    pub(crate) fn standing(&self, from: usize, count: usize) -> Vec<(Key, Intent)> {
        let table = self.table();
        let all =
            table.iter().flat_map(|(key, intents)| intents.iter().map(|(intent, _)| (key.clone(), intent.clone())));
        all.skip(from).take(count).collect()
    }

    /// `None` without an intent; else those that are overdue.
    pub(crate) fn of(&self, key: &Key) -> Option<Vec<Intent>> {
        let table = self.table();
        let overdue = table.get(key)?.iter().filter(|(_, since)| since.elapsed() >= OVERDUE);
        Some(overdue.map(|(intent, _)| intent.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_writer_ends_its_own_intent_only() {
        let (intents, key) = (Intents::default(), Key::new("stock", "a").unwrap());
        let intent = |id: &str| Intent { id: id.into(), xid: "7".into() };
        let keys = std::slice::from_ref(&key);
        intents.begin(keys, &intent("one"));
        intents.begin(keys, &intent("two"));
        assert!(intents.end(keys, "one"));
        assert!(!intents.end(keys, "one"));
        assert_eq!(intents.of(&key), Some(Vec::new()));
        assert!(intents.end(keys, "two"));
        assert_eq!(intents.of(&key), None);
    }
}
