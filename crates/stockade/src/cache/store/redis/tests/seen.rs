use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::tag_table::{TagTable, Verdict};
use crate::cache::store::redis::stored::Stored;

/// The shape of the values in these tests.
pub(super) const SHAPE: &str = "5a";

/// The state of the store for one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) value: Option<String>,
    /// Server time, µs.
    pub(super) fresh_until: u64,
    pub(super) loaded_at: u64,
    /// The tags and the stamp of the value.
    pub(super) tags: String,
    pub(super) stamp: Option<String>,
    pub(super) token: Option<String>,
    /// The stamp of the token: the state of the table of tags when the token was given.
    pub(super) noted: Option<String>,
    pub(super) leased_until: u64,
    /// The epoch of the cache, of the value and of the token.
    pub(super) epoch: u64,
    pub(super) value_epoch: u64,
    pub(super) token_epoch: u64,
    /// Server time, µs, up to which a failed load is not tried again.
    pub(super) held_until: u64,
    /// Server time, µs, up to which the key is loaded without a lease.
    pub(super) free_until: u64,
    /// How many loads of this key alone failed in a row.
    pub(super) failures: u64,
    pub(super) waiting: BTreeSet<String>,
    /// The transaction and the server time (µs) of each intent.
    pub(super) intents: BTreeMap<String, (String, u64)>,
    pub(super) sequence: u64,
    pub(super) marker: String,
    pub(super) table: TagTable,
    pub(super) tag_sequence: u64,
    /// The server time at which the state was read, µs.
    pub(super) at: u64,
    /// How long the entry is kept, in ms; negative if there is no entry.
    pub(super) kept: i64,
}

impl Seen {
    /// Reads the replies to the commands of [`Seen::ask`].
    pub(super) fn read(replies: &[Value]) -> Self {
        let [kept, entry, intents, sequence, marker, table, epoch, tag_sequence, time] = replies else {
            panic!("{replies:?}")
        };
        let number = |value| text(value).parse().unwrap_or_default();
        let (sequence, tag_sequence, epoch) = (number(sequence), number(tag_sequence), number(epoch));
        let mut seen = Self { sequence, tag_sequence, epoch, ..Self::default() };
        let mut expires = 0;
        for (field, content) in fields(entry) {
            let field = field.strip_suffix(&format!(":{SHAPE}")).unwrap_or(&field);
            match (field, field.strip_prefix(&format!("w:{SHAPE}:"))) {
                ("v", _) => seen.stored(content),
                ("exp", _) => expires = content.parse().unwrap(),
                ("tok", _) => seen.token = Some(content),
                ("tokt", _) => seen.noted = Some(content),
                ("tokc", _) => seen.token_epoch = content.parse().unwrap(),
                ("hold", _) => seen.held_until = content.parse().unwrap(),
                ("free", _) => seen.free_until = content.parse().unwrap(),
                ("fails", _) => seen.failures = content.parse().unwrap(),
                ("tokx", _) => seen.leased_until = content.parse().unwrap(),
                (_, Some(process)) => drop(seen.waiting.insert(process.to_owned())),
                _ => {}
            }
        }
        assert_eq!(expires, seen.fresh_until, "what other versions are told");
        for (intent, content) in fields(intents) {
            let (transaction, started) = content.split_once(' ').unwrap();
            seen.intents.insert(intent, (transaction.to_owned(), started.parse().unwrap()));
        }
        let Value::Int(kept) = kept else { panic!("{kept:?}") };
        let (seconds, micros): (u64, u64) = redis::from_redis_value(time.clone()).unwrap();
        let at = seconds * 1_000_000 + micros;
        Self { marker: text(marker), table: TagTable::read(table.clone()), at, kept: *kept, ..seen }
    }

    fn stored(&mut self, content: String) {
        let stored = Stored::read(content.into_bytes()).unwrap();
        self.value = Some(String::from_utf8(stored.payload().to_vec()).unwrap());
        (self.fresh_until, self.loaded_at, self.value_epoch) = (stored.expires, stored.loaded, stored.epoch);
        let stamp = format!("{} {}", stored.stamp.epoch, stored.stamp.newest);
        self.stamp = (!stored.tags.is_empty()).then_some(stamp);
        stored.tags.as_packed().clone_into(&mut self.tags);
    }

    /// How many commands [`Seen::ask`] adds.
    pub(super) const COMMANDS: usize = 9;

    /// Adds the commands that read the keys `E I S T C`, the marker and the sequence of tags.
    pub(super) fn ask(pipe: &mut redis::Pipeline, keys: &[String], marker: &str, tag_sequence: &str) {
        // Before the entry, so that an entry that expires in between is known to have been near its end.
        pipe.cmd("PTTL").arg(&keys[0]);
        pipe.cmd("HGETALL").arg(&keys[0]).cmd("HGETALL").arg(&keys[1]).cmd("GET").arg(&keys[2]);
        pipe.cmd("GET").arg(marker).cmd("ZRANGE").arg(&keys[3]).arg(0).arg(-1).arg("WITHSCORES");
        pipe.cmd("GET").arg(&keys[4]).cmd("GET").arg(tag_sequence).cmd("TIME");
    }

    /// Whether the entry, or an entry that a call keeps for `kept` µs, may have expired before this server time.
    pub(super) fn may_end(&self, kept: Option<u64>, before: u64) -> bool {
        /// Redis keeps expiry in whole ms, by a clock that it reads now and then.
        const COARSE: u64 = 20_000;
        let own = u64::try_from(self.kept).ok().map(|kept| kept * 1000);
        own.into_iter().chain(kept).any(|kept| self.at + kept <= before + COARSE)
    }

    /// Whether the tags of the value hold; `None` without tags.
    pub(super) fn verdict(&self, run: &str) -> Option<Verdict> {
        self.table.judge_unless_empty(run, self.stamp.as_deref(), &self.tags)
    }

    /// The epoch after a script that was given `known`. If the epoch was lost, its new number is `after`, which must be
    /// above `known`.
    pub(super) fn next_epoch(&self, known: u64, after: u64) -> u64 {
        match self.epoch {
            0 => after.max(known + 1),
            epoch => epoch.max(known),
        }
    }

    /// The state without the times at which it was read and expires.
    pub(super) fn essence(&self) -> Self {
        Self { at: 0, kept: 0, ..self.clone() }
    }

    /// The state without the value and what was noted beside it.
    pub(super) fn without_value(self) -> Self {
        let (value, tags, stamp) = (None, String::new(), None);
        Self { value, tags, stamp, fresh_until: 0, loaded_at: 0, value_epoch: 0, held_until: 0, failures: 0, ..self }
    }

    /// The state after an invalidation.
    pub(super) fn dropped(&self) -> Self {
        let Self { intents, marker, table, tag_sequence, epoch, .. } = self.clone();
        Self { intents, marker, table, tag_sequence, epoch, sequence: self.sequence + 1, ..Self::default() }
    }
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil => String::new(),
        other => panic!("{other:?}"),
    }
}

fn fields(value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Array(parts) => parts.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        Value::Map(pairs) => pairs.iter().map(|(field, content)| (text(field), text(content))).collect(),
        other => panic!("{other:?}"),
    }
}
