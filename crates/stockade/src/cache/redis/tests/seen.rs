use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

/// The shape of the values that are played with.
pub(super) const SHAPE: &str = "5a";

/// What lies in the store for one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) value: Option<String>,
    /// Server time, µs.
    pub(super) fresh_until: u64,
    pub(super) token: Option<String>,
    pub(super) leased_until: u64,
    /// Server time, µs, up to which a failed load is not tried again.
    pub(super) held_until: u64,
    pub(super) waiting: BTreeSet<String>,
    /// Transaction and server time in µs, by intent.
    pub(super) intents: BTreeMap<String, (String, u64)>,
    pub(super) sequence: u64,
    pub(super) marker: String,
    /// How long the entry is kept, in ms; negative without one.
    pub(super) kept: i64,
}

impl Seen {
    /// The replies to [`Seen::ask`].
    pub(super) fn read(replies: &[Value]) -> Self {
        let [entry, intents, sequence, marker, kept] = replies else { panic!("{replies:?}") };
        let mut seen = Self { sequence: text(sequence).parse().unwrap_or_default(), ..Self::default() };
        for (field, content) in fields(entry) {
            let field = field.strip_suffix(&format!(":{SHAPE}")).unwrap_or(&field);
            match (field, field.strip_prefix(&format!("w:{SHAPE}:"))) {
                ("v", _) => seen.value = Some(content),
                ("exp", _) => seen.fresh_until = content.parse().unwrap(),
                ("tok", _) => seen.token = Some(content),
                ("hold", _) => seen.held_until = content.parse().unwrap(),
                ("tokx", _) => seen.leased_until = content.parse().unwrap(),
                (_, Some(process)) => drop(seen.waiting.insert(process.to_owned())),
                _ => {}
            }
        }
        for (intent, content) in fields(intents) {
            let (transaction, started) = content.split_once(' ').unwrap();
            seen.intents.insert(intent, (transaction.to_owned(), started.parse().unwrap()));
        }
        seen.marker = text(marker);
        let Value::Int(kept) = kept else { panic!("{kept:?}") };
        Self { kept: *kept, ..seen }
    }

    /// How many commands [`Seen::ask`] adds.
    pub(super) const COMMANDS: usize = 5;

    /// Adds the commands that tell all about the keys `E I S` and the marker.
    pub(super) fn ask(pipe: &mut redis::Pipeline, keys: &[String], marker: &str) {
        pipe.cmd("HGETALL").arg(&keys[0]).cmd("HGETALL").arg(&keys[1]).cmd("GET").arg(&keys[2]);
        pipe.cmd("GET").arg(marker).cmd("PTTL").arg(&keys[0]);
    }

    /// Whether there may be no entry by the time that the next command runs.
    pub(super) fn may_end(&self) -> bool {
        (0..50).contains(&self.kept)
    }

    /// This without anything that ends by itself or is counted.
    pub(super) fn essence(&self) -> Self {
        Self { kept: 0, ..self.clone() }
    }

    /// This as every invalidation leaves it.
    pub(super) fn dropped(&self) -> Self {
        let (intents, marker) = (self.intents.clone(), self.marker.clone());
        Self { intents, marker, sequence: self.sequence + 1, ..Self::default() }
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
