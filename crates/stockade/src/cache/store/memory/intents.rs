use std::collections::HashMap;

use parking_lot::Mutex;

use crate::{
    cache::strict::{Intent, OVERDUE},
    clock::Instant,
    resource::Key,
};

/// The intents of a cache without Redis.
#[derive(Debug, Default)]
pub(crate) struct Intents(Mutex<HashMap<Key, Vec<(Intent, Instant)>>>);

impl Intents {
    pub(crate) fn begin(&self, keys: &[Key], intent: &Intent) {
        let mut table = self.0.lock();
        for key in keys {
            table.entry(key.clone()).or_default().push((intent.clone(), Instant::now()));
        }
    }

    /// Ends an intent on this key. Returns whether it was there.
    pub(crate) fn end(&self, key: &Key, id: &str) -> bool {
        let mut table = self.0.lock();
        let Some(intents) = table.get_mut(key) else { return false };
        let before = intents.len();
        intents.retain(|(intent, _)| &*intent.id != id);
        let ended = intents.len() < before;
        if intents.is_empty() {
            table.remove(key);
        }
        ended
    }

    /// At most `count` of the standing intents, from number `from` on.
    pub(crate) fn standing(&self, from: usize, count: usize) -> Vec<(Key, Intent)> {
        let table = self.0.lock();
        let all =
            table.iter().flat_map(|(key, intents)| intents.iter().map(|(intent, _)| (key.clone(), intent.clone())));
        all.skip(from).take(count).collect()
    }

    /// `None` if the key has no intent. Otherwise those of its intents that are overdue.
    pub(crate) fn of(&self, key: &Key) -> Option<Vec<Intent>> {
        let table = self.0.lock();
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
        assert!(intents.end(&key, "one"));
        assert!(!intents.end(&key, "one"));
        assert_eq!(intents.of(&key), Some(Vec::new()));
        assert!(intents.end(&key, "two"));
        assert_eq!(intents.of(&key), None);
    }
}
