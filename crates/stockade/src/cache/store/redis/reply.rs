use redis::Value;

use super::stored::Stored;
use crate::{cache::strict::Intent, redis::LinkError};

/// The reply of a script: a word, the server's time in µs, and the rest.
#[derive(Debug)]
pub(super) struct Reply {
    op: &'static str,
    word: String,
    pub(super) now: u64,
    rest: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(super) fn read(op: &'static str, value: Value) -> Result<Self, LinkError> {
        let unexpected = || LinkError::Protocol { op };
        let Value::Array(values) = value else {
            return Err(unexpected());
        };
        let mut rest = values.into_iter();
        let word = rest.next().and_then(bytes).and_then(|word| String::from_utf8(word).ok()).ok_or_else(unexpected)?;
        let now = rest.next().and_then(number).ok_or_else(unexpected)?;
        Ok(Self { op, word, now, rest })
    }

    pub(super) fn word(&self) -> &str {
        &self.word
    }

    pub(super) fn unexpected(&self) -> LinkError {
        LinkError::Protocol { op: self.op }
    }

    pub(super) fn number(&mut self) -> Result<u64, LinkError> {
        self.rest.next().and_then(number).ok_or_else(|| self.unexpected())
    }

    /// The intents, from pairs of intent and transaction id.
    pub(super) fn intents(&mut self) -> Vec<Intent> {
        let mut words = self.rest.by_ref().map_while(|value| String::from_utf8(bytes(value)?).ok());
        std::iter::from_fn(|| Some(Intent { id: words.next()?.into(), xid: words.next()?.into() })).collect()
    }

    /// The standing intents with their resources.
    pub(super) fn announced(&mut self) -> Vec<(String, Intent)> {
        // A word that is not UTF-8 must not hide the words after it.
        let mut words =
            self.rest.by_ref().map_while(|value| Some(String::from_utf8_lossy(&bytes(value)?).into_owned()));
        std::iter::from_fn(|| {
            let intent = Intent { id: words.next()?.into(), xid: words.next()?.into() };
            Some((words.next()?, intent))
        })
        .collect()
    }

    pub(super) fn stored(&mut self) -> Option<Stored> {
        self.rest.next().and_then(bytes).and_then(Stored::read)
    }
}

/// The text of a reply: scripts write numbers as texts too.
fn bytes(value: Value) -> Option<Vec<u8>> {
    if let Value::BulkString(bytes) = value { Some(bytes) } else { None }
}

fn number(value: Value) -> Option<u64> {
    std::str::from_utf8(&bytes(value)?).ok()?.parse().ok()
}
