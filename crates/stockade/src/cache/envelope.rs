use std::any::type_name;

use serde::{Serialize, de::DeserializeOwned};

/// The first byte of every stored value: the layout of what follows.
const LAYOUT: u8 = 1;
const HEADER: usize = 1 + size_of::<u64>();

/// How values of one type are written: a layout byte, a fingerprint of the type, JSON.
///
/// A process that was deployed with another shape of the type reads a miss, never an error or a half-understood value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    fingerprint: u64,
}

/// Written by another layout or another shape of the type, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Envelope {
    /// `schema` is raised by the application when the meaning of the type changes and its name does not.
    pub(crate) fn of<V>(schema: u32) -> Self {
        let name = type_name::<V>().bytes();
        Self { fingerprint: name.chain(schema.to_be_bytes()).fold(FNV_OFFSET, fnv) }
    }

    fn header(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        bytes.push(LAYOUT);
        bytes.extend(self.fingerprint.to_be_bytes());
        bytes
    }

    pub(crate) fn encode<V: Serialize>(self, value: Option<&V>) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = self.header();
        if let Some(value) = value {
            serde_json::to_writer(&mut bytes, value)?;
        }
        Ok(bytes)
    }

    /// `null` says whether the entry was stored as the absence of a row; absence and a value that is written as JSON
    /// `null` are different things.
    pub(crate) fn decode<V: DeserializeOwned>(self, bytes: &[u8], null: bool) -> Result<Option<V>, Unreadable> {
        let (header, json) = bytes.split_at_checked(HEADER).ok_or(Unreadable)?;
        if header != self.header() {
            return Err(Unreadable);
        }
        if null {
            return if json.is_empty() { Ok(None) } else { Err(Unreadable) };
        }
        serde_json::from_slice(json).map(Some).map_err(|_| Unreadable)
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_an_empty_text_and_json_null_stay_apart() {
        let texts = Envelope::of::<String>(0);
        let absent = texts.encode::<String>(None).unwrap();
        let empty = texts.encode(Some(&String::new())).unwrap();
        assert_eq!(texts.decode::<String>(&absent, true), Ok(None));
        assert_eq!(texts.decode::<String>(&empty, false), Ok(Some(String::new())));
        let options = Envelope::of::<Option<u8>>(0);
        let null = options.encode(Some(&None::<u8>)).unwrap();
        assert_eq!(options.decode::<Option<u8>>(&null, false), Ok(Some(None)));
    }

    #[test]
    fn damaged_and_foreign_bytes_are_unreadable() {
        let envelope = Envelope::of::<u64>(0);
        let bytes = envelope.encode(Some(&7_u64)).unwrap();
        assert_eq!(envelope.decode::<u64>(&bytes, false), Ok(Some(7)));
        assert_eq!(envelope.decode::<u64>(&bytes, true), Err(Unreadable));
        assert_eq!(envelope.decode::<u64>(b"", false), Err(Unreadable));
        assert_eq!(envelope.decode::<u64>(&bytes[..9], false), Err(Unreadable));
        assert_eq!(envelope.decode::<u64>(b"garbage of some length", false), Err(Unreadable));
        assert_eq!(Envelope::of::<u64>(1).decode::<u64>(&bytes, false), Err(Unreadable));
        assert_eq!(Envelope::of::<u32>(0).decode::<u64>(&bytes, false), Err(Unreadable));
        let mut newer = bytes;
        newer[0] = LAYOUT + 1;
        assert_eq!(envelope.decode::<u64>(&newer, false), Err(Unreadable));
    }
}
