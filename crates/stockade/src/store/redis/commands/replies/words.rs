//! Parses the words of replies.

use std::time::Duration;

use crate::store::Token;

/// The words of a record. The last one, the tag, may be empty or contain spaces.
pub(super) fn fields<const N: usize>(record: &str) -> Option<[&str; N]> {
    let mut words = record.splitn(N, ' ');
    let mut fields = [""; N];
    for field in &mut fields {
        *field = words.next()?;
    }
    Some(fields)
}

pub(super) fn flag(word: &str) -> Option<bool> {
    match word {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

pub(crate) fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

pub(crate) fn token(text: &str) -> Option<Token> {
    Token::new(number(text)?)
}

pub(super) fn micros(text: &str) -> Option<Duration> {
    number(text).map(Duration::from_micros)
}
