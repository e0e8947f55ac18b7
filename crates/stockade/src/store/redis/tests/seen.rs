use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

/// What `invariants.lua` saw of one resource.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) broken: String,
    /// Server time, µs.
    pub(super) now: u64,
    /// Holders with their tokens and the ends of their leases.
    pub(super) holders: BTreeMap<String, (u64, u64)>,
    pub(super) queue: Vec<String>,
}

impl Seen {
    pub(super) fn read(reply: &Value) -> Self {
        let Value::Array(parts) = reply else { panic!("{reply:?}") };
        let [broken, now, state, queue, readers] = parts.as_slice() else { panic!("{reply:?}") };
        let mut holders = BTreeMap::new();
        let words: Vec<_> = text(state).split(' ').collect();
        if let ["w" | "r", _, _, owner, token, x, ..] = words.as_slice() {
            holders.insert((*owner).to_owned(), (token.parse().unwrap(), x.parse().unwrap()));
        }
        for reader in list(readers).chunks_exact(2) {
            let words: Vec<_> = reader[1].split(' ').collect();
            holders.insert(reader[0].to_owned(), (words[1].parse().unwrap(), words[0].parse().unwrap()));
        }
        let queue = list(queue).into_iter().map(str::to_owned).collect();
        Self { broken: text(broken).to_owned(), now: text(now).parse().unwrap(), holders, queue }
    }

    /// What is wrong with this state as the successor of `before`, if anything. After several calls, one of those who
    /// waited may have lost its place and come back to it, so that nobody is overtaken is known after one call only.
    pub(super) fn wrong_after(&self, before: &Self, calls: usize) -> Option<String> {
        if !self.broken.is_empty() {
            return Some(self.broken.clone());
        }
        let latest = before.holders.values().map(|(token, _)| *token).max().unwrap_or_default();
        let mut tokens = BTreeSet::new();
        for (owner, (token, _)) in &self.holders {
            if !tokens.insert(*token) {
                return Some(format!("{token} is the token of {owner} and of another"));
            }
            match before.holders.get(owner) {
                Some((same, _)) if same == token => continue,
                Some((other, _)) if token < other => return Some(format!("{owner} went from {other} to {token}")),
                _ => {}
            }
            if *token <= latest {
                return Some(format!("{owner} was granted {token} after {latest}"));
            }
            // Every waiter before it was granted together with it, or left: nobody is overtaken.
            let ahead = before.queue.iter().take_while(|waiting| *waiting != owner);
            let was_queued = calls == 1 && before.queue.contains(owner);
            if let Some(passed) = ahead.filter(|_| was_queued).find(|waiting| self.queue.contains(waiting)) {
                return Some(format!("{owner} was served before {passed}"));
            }
        }
        None
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn list(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(parts) => parts.iter().map(text).collect(),
        other => panic!("{other:?}"),
    }
}
