use std::str::from_utf8;

use super::tag_stamp::TagStamp;
use crate::cache::tags::Tags;

/// A value as it is stored in Redis: one field of its entry, so that a hit reads nothing else. `fill.lua` describes the
/// format.
///
/// Times are the server's, in µs.
#[derive(Debug)]
pub(super) struct Stored {
    bytes: Vec<u8>,
    payload: usize,
    pub(super) null: bool,
    pub(super) expires: u64,
    pub(super) loaded: u64,
    pub(super) version: Option<u64>,
    /// How long the load took, in µs.
    pub(super) took: u64,
    pub(super) tags: Tags,
    /// The state of the table of tags before the load, to check the tags against.
    pub(super) stamp: TagStamp,
    /// The epoch in which the load was leased.
    pub(super) epoch: u64,
}

impl Stored {
    /// The name of the field in the entry. Other versions of the program may have other fields in the same entry.
    pub(super) fn field(fingerprint: &str) -> String {
        format!("v:{fingerprint}")
    }

    /// Reads a field. `None` if it does not have the format that a cache writes.
    pub(super) fn read(bytes: Vec<u8>) -> Option<Self> {
        let mut rest = &bytes[..];
        let (expires, loaded, epoch) = (number(&mut rest, b' ')?, number(&mut rest, b' ')?, number(&mut rest, b' ')?);
        let stamp = TagStamp { epoch: number(&mut rest, b' ')?, newest: number(&mut rest, b' ')? };
        let null = match word(&mut rest)? {
            kind if kind == Self::VALUE.as_bytes() => false,
            kind if kind == Self::NULL.as_bytes() => true,
            _ => return None,
        };
        let mut from_version = rest;
        let version = match word(&mut rest)? {
            none if none == Self::NO_VERSION.as_bytes() => None,
            _ => Some(number(&mut from_version, b' ')?),
        };
        let took = number(&mut rest, b'\n')?;
        let tags = bytes.len() - rest.len();
        let end = tags + bytes[tags..].windows(2).position(|pair| pair == b"\n\n")?;
        let tags = Tags::packed(from_utf8(&bytes[tags..end]).ok()?);
        Some(Self { payload: end + 2, null, expires, loaded, version, took, tags, stamp, epoch, bytes })
    }

    /// The words that the loading process adds: whether there is a row, the version, and how long the load took (µs).
    pub(super) fn words(null: bool, version: Option<u64>, took: u128) -> String {
        let kind = if null { Self::NULL } else { Self::VALUE };
        match version {
            Some(version) => format!("{kind} {version} {took}"),
            None => format!("{kind} {} {took}", Self::NO_VERSION),
        }
    }

    /// The value in its envelope.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[self.payload..]
    }

    const VALUE: &str = "value";
    const NULL: &str = "null";
    const NO_VERSION: &str = "-";
}

/// Takes a number of digits alone, and the byte `behind` that ends it.
fn number(rest: &mut &[u8], behind: u8) -> Option<u64> {
    let (mut number, mut digits) = (0_u64, 0);
    loop {
        let (byte, others) = rest.split_first()?;
        *rest = others;
        match byte {
            b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?,
            byte => return (*byte == behind && digits > 0).then_some(number),
        }
        digits += 1;
    }
}

/// Takes a word and the space after it.
fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let (word, others) = (&rest[..space], &rest[space + 1..]);
    *rest = others;
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Stored> {
        Stored::read(text.as_bytes().to_vec())
    }

    #[test]
    fn a_value_is_read_as_the_script_stores_it() {
        let stored =
            read("1763747000000900 1763747000000000 77 5 6 value 18446744073709551615 42\nred\nsize:1\n\n{\n\n}")
                .unwrap();
        assert_eq!((stored.expires, stored.loaded, stored.epoch), (1_763_747_000_000_900, 1_763_747_000_000_000, 77));
        assert_eq!((stored.stamp, stored.took), (TagStamp { epoch: 5, newest: 6 }, 42));
        assert_eq!((stored.null, stored.version), (false, Some(u64::MAX)));
        assert_eq!(stored.tags.iter().collect::<Vec<_>>(), ["red", "size:1"]);
        assert_eq!(stored.payload(), b"{\n\n}");
        let absence = read(&format!("9 8 77 0 0 {}\n\n\n\n\n", Stored::words(true, None, 3))).unwrap();
        assert_eq!((absence.null, absence.version, absence.took), (true, None, 3));
        assert!(absence.tags.is_empty());
        assert_eq!(absence.payload(), b"\n\n");
    }

    #[test]
    fn what_no_cache_has_written_is_no_value() {
        let whole = "9 8 77 5 6 value 1 42\nred\n\n";
        assert!(read(whole).is_some());
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_none(), "cut off behind {end} bytes");
        }
        for (place, word) in whole.trim_end().split([' ', '\n']).enumerate().take(8) {
            for other in ["", "x", "-1", "+1", "inf", "1e300", "18446744073709551616"] {
                let mut words: Vec<_> = "9 8 77 5 6 value 1 42".split(' ').collect();
                words[place] = other;
                let text = format!("{}\n\n\n", words.join(" "));
                assert!(read(&text).is_none(), "{other:?} in place of {word}");
            }
        }
        assert!(Stored::read(b"9 8 77 5 6 value 1 42\n\xff\n\n".to_vec()).is_none());
    }
}
