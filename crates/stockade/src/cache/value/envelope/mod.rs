mod fingerprint;

use std::{
    fmt::Write as _,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
};

use crc32fast::Hasher;
use fingerprint::Fingerprint;
use serde::{Serialize, de::DeserializeOwned};

use crate::cache::{
    Codec,
    value::{
        codec::EncodeError,
        compression::{self, Compression},
    },
};

/// The first byte of every stored value: the version of this layout and of the layout of the Redis field around it.
const LAYOUT: u8 = 3;
/// The size of layout, codec, form of the payload and fingerprint.
const HEAD: usize = 3 + size_of::<u64>();
/// The size of all before the payload: the head and the checksum of head and payload.
const HEADER: usize = HEAD + size_of::<u32>();

/// How values of one type are written: a layout byte, the codec, the form of the payload, a fingerprint, a checksum,
/// the payload.
///
/// A value under another fingerprint, a value that does not fit the type, and a damaged value are misses, never errors.
/// Damage is found by the checksum, since damaged bytes may still decode: a number without its last digit is a number.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    codec: Codec,
    compression: Option<Compression>,
    /// The largest payload before compression, in bytes.
    max: usize,
    fingerprint: u64,
    field: String,
    /// A number for the name of the type and its schema, the same for every codec and compression.
    pub(crate) meaning: u64,
}

#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// The weight in memory: the size before compression, in bytes.
    pub(crate) weight: u64,
}

/// Why a value is not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unstorable {
    #[error("its encoding is over the limit of {0} bytes: increase `max_value` to store it")]
    TooLarge(usize),
    #[error("its encoding failed: {0}")]
    NoEncoding(EncodeError),
    #[error("its encoding panicked: correct its `Serialize`")]
    Panicked,
}

impl Unstorable {
    /// A label of `stockade_cache_payloads_refused_total`.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::NoEncoding(_) | Self::Panicked => "no_encoding",
        }
    }
}

/// The stored value has another layout or fingerprint, does not fit the type, or is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Envelope {
    /// The application increases `schema` if values of an earlier version must not be read.
    pub(crate) fn of<V>(schema: u32, codec: Codec, compression: Option<Compression>, max: usize) -> Self {
        let of_type = Fingerprint::of::<V>(schema);
        let fingerprint = of_type.with(&[LAYOUT, codec.id(), u8::from(compression.is_some())]).value();
        let mut field = String::with_capacity(8);
        // Writing to a String can't fail.
        let _ = write!(field, "{:08x}", (fingerprint >> 32) ^ (fingerprint & 0xffff_ffff));
        Self { codec, compression, max, fingerprint, field, meaning: of_type.value() }
    }

    /// A short text that sets the Redis fields of these values apart from those of other versions of the program.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.field
    }

    fn head(&self, form: u8) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..3].copy_from_slice(&[LAYOUT, self.codec.id(), form]);
        head[3..].copy_from_slice(&self.fingerprint.to_be_bytes());
        head
    }

    /// Turns a panic of the type's `Serialize` into an error, because the caller must give back the lease of its load.
    pub(crate) fn encode<V: Serialize>(&self, value: Option<&V>) -> Result<Encoded, Unstorable> {
        catch_unwind(AssertUnwindSafe(|| self.write(value))).unwrap_or(Err(Unstorable::Panicked))
    }

    fn write<V: Serialize>(&self, value: Option<&V>) -> Result<Encoded, Unstorable> {
        // Leaves room for the header in front, so that a payload that is not compressed is not copied.
        let mut limited = Limited { bytes: vec![0; HEADER], end: HEADER.saturating_add(self.max), full: false };
        if let Some(value) = value {
            let written = self.codec.write(value, &mut limited);
            if limited.full {
                return Err(Unstorable::TooLarge(self.max));
            }
            written.map_err(Unstorable::NoEncoding)?;
        }
        let mut bytes = limited.bytes;
        let weight = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut form = compression::NONE;
        if let Some(compression) = self.compression
            && let (smaller, std::borrow::Cow::Owned(payload)) = compression.apply(&bytes[HEADER..])
        {
            form = smaller;
            bytes.truncate(HEADER);
            bytes.extend(payload);
        }
        let head = self.head(form);
        let sum = checksum(&head, &bytes[HEADER..]);
        bytes[..HEAD].copy_from_slice(&head);
        bytes[HEAD..HEADER].copy_from_slice(&sum);
        Ok(Encoded { bytes, weight })
    }

    /// The value, and its weight in memory. `null` says whether the entry was stored as the absence of a row, which
    /// differs from a value that is written as JSON `null`.
    ///
    /// A value whose `Deserialize` panics is unreadable. The panic must not reach the caller, which may hold a lease:
    /// an expired value comes with it.
    pub(crate) fn decode<V: DeserializeOwned>(&self, bytes: &[u8], null: bool) -> Result<(Option<V>, u64), Unreadable> {
        catch_unwind(|| self.read(bytes, null)).unwrap_or(Err(Unreadable))
    }

    fn read<V: DeserializeOwned>(&self, bytes: &[u8], null: bool) -> Result<(Option<V>, u64), Unreadable> {
        let (header, payload) = bytes.split_at_checked(HEADER).ok_or(Unreadable)?;
        let (head, sum) = header.split_at(HEAD);
        if head != self.head(head[2]) || sum != checksum(head, payload) {
            return Err(Unreadable);
        }
        let payload = compression::undo(head[2], payload, self.max).ok_or(Unreadable)?;
        let weight = u64::try_from(HEADER + payload.len()).unwrap_or(u64::MAX);
        if null {
            return if payload.is_empty() { Ok((None, weight)) } else { Err(Unreadable) };
        }
        let value = self.codec.read(&payload).ok_or(Unreadable)?;
        Ok((Some(value), weight))
    }
}

fn checksum(head: &[u8], payload: &[u8]) -> [u8; 4] {
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize().to_be_bytes()
}

/// A buffer with a limit, so that a value far over the limit does not use its size in memory.
struct Limited {
    bytes: Vec<u8>,
    end: usize,
    full: bool,
}

impl Write for Limited {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.end {
            self.full = true;
            return Err(io::Error::other("over the limit"));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
