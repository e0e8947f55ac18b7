use redis::Value;

use super::{operation::Operation, seen::text};
use crate::cache::store::redis::stored::Stored;

/// The reply to a call: a word, the server's time in µs, and the rest.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) word: String,
    pub(super) now: u64,
    pub(super) rest: Vec<String>,
}

impl Reply {
    pub(super) fn of(step: &Operation, values: &[Value]) -> Self {
        match (step, values) {
            (Operation::Read { .. }, [stored, scores, epoch]) => Self::judged(stored, scores, epoch),
            (Operation::Lose | Operation::LoseEpoch { .. }, _) => {
                Self { word: "LOST".to_owned(), now: 0, rest: Vec::new() }
            }
            (_, [Value::Array(parts)]) => {
                let mut parts = parts.iter().map(text);
                let (word, now) = (parts.next().unwrap(), parts.next().unwrap().parse().unwrap());
                let rest = match word.as_str() {
                    "HIT" | "HELD" | "LEASED" => given(&parts.next().unwrap()).into(),
                    _ => parts.collect(),
                };
                Self { word, now, rest }
            }
            other => panic!("{other:?}"),
        }
    }

    /// How a process judges a value, by the scores of the table's epoch, its floor and every tag.
    fn judged(stored: &Value, scores: &Value, epoch: &Value) -> Self {
        let Value::Array(scores) = scores else { panic!("{scores:?}") };
        let found = text(stored);
        let word = match Stored::read(found.clone().into_bytes()) {
            None => "ABSENT",
            Some(stored) if stored.epoch.to_string() != text(epoch) => "OUTDATED",
            Some(stored) if stored.tags.is_empty() => "UNTAGGED",
            Some(stored) => {
                let (table, each) = scores.split_at(2);
                let its =
                    Operation::TAGS.iter().zip(each).filter(|(tag, _)| stored.tags.iter().any(|its| its == **tag));
                let scores = table.iter().chain(its.map(|(_, score)| score)).cloned().collect();
                if stored.stamp.holds(Value::Array(scores)) { "HOLDS" } else { "OUTDATED" }
            }
        };
        Self { word: word.to_owned(), now: 0, rest: if word == "ABSENT" { Vec::new() } else { given(&found).into() } }
    }

    /// The value that the call returned or stored, and its tags.
    pub(super) fn gave<'a>(&'a self, step: &'a Operation) -> Option<(&'a str, &'a str)> {
        match (step, self.word.as_str()) {
            (Operation::Fill { value, tags, .. }, "ACCEPTED") => Some((value, tags)),
            (Operation::Lease { .. }, "HIT" | "HELD" | "LEASED") | (Operation::Read { .. }, "UNTAGGED" | "HOLDS") => {
                let value = self.rest.first().filter(|value| !value.is_empty())?;
                Some((value, &self.rest[1]))
            }
            _ => None,
        }
    }
}

/// The value of a field, its tags, and its stamp. Empty texts if there is none.
fn given(found: &str) -> [String; 3] {
    let Some(stored) = Stored::read(found.as_bytes().to_vec()) else {
        assert_eq!(found, "", "no value can be read");
        return Default::default();
    };
    let stamp = format!("{} {}", stored.stamp.epoch, stored.stamp.newest);
    let value = String::from_utf8(stored.payload().to_vec()).unwrap();
    [value, stored.tags.as_packed().to_owned(), if stored.tags.is_empty() { String::new() } else { stamp }]
}
