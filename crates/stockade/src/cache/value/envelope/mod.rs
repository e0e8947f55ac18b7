mod fingerprint;

use std::{
    fmt::Write as _,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
};

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use fingerprint::Fingerprint;
use serde::{Serialize, de::DeserializeOwned};

use crate::cache::{
    Codec,
    value::{
        codec::EncodeError,
        compression::{self, Compression},
    },
};

/// The first byte of every stored value: the layout of what follows, and of the field that it lies in.
const LAYOUT: u8 = 3;
/// Layout, codec, form of the payload, fingerprint.
const HEAD: usize = 3 + size_of::<u64>();
/// With the checksum of head and payload.
const HEADER: usize = HEAD + size_of::<u32>();

const CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// How values of one type are written: a layout byte, the codec, the form of the payload, a fingerprint of the type's
/// name and schema, a checksum, the payload.
///
/// A value under another fingerprint, a value that does not fit the type, and a damaged value are misses, never errors.
/// The checksum is needed for that: a number that lost its last digit is a number.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    codec: Codec,
    compression: Option<Compression>,
    /// The largest payload before compression, in bytes.
    max: usize,
    fingerprint: u64,
    field: String,
    meaning: u64,
}

/// A value as it is stored.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// What it weighs in memory: its size before compression.
    pub(crate) weight: u64,
}

/// Why a value is not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unstorable {
    #[error("its encoding is over the limit of {0} bytes: raise `max_value` if it should be kept")]
    TooLarge(usize),
    #[error("it has no encoding: {0}")]
    NoEncoding(EncodeError),
    #[error("its encoding panicked: mend its `Serialize`")]
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

/// Written in another layout, under another fingerprint, or for a type that this one does not fit; or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Envelope {
    /// `schema` is raised by the application when values of an earlier version must not be read.
    pub(crate) fn of<V>(schema: u32, codec: Codec, compression: Option<Compression>, max: usize) -> Self {
        let of_type = Fingerprint::of::<V>(schema);
        let fingerprint = of_type.with(&[LAYOUT, codec.id(), u8::from(compression.is_some())]).value();
        let mut field = String::with_capacity(8);
        // Writing to a String can't fail.
        let _ = write!(field, "{:08x}", (fingerprint >> 32) ^ (fingerprint & 0xffff_ffff));
        Self { codec, compression, max, fingerprint, field, meaning: of_type.value() }
    }

    /// What sets the fields of these values apart from those of other versions of the program.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.field
    }

    /// A number for the name of the type and its schema, whatever codec and compression they are stored with.
    #[cfg(feature = "axum")]
    pub(crate) fn meaning(&self) -> u64 {
        self.meaning
    }

    fn head(&self, form: u8) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..3].copy_from_slice(&[LAYOUT, self.codec.id(), form]);
        head[3..].copy_from_slice(&self.fingerprint.to_be_bytes());
        head
    }

    /// A panic of the type's `Serialize` is an error here: the caller holds the lease of a load, which it has to give
    /// back.
    pub(crate) fn encode<V: Serialize>(&self, value: Option<&V>) -> Result<Encoded, Unstorable> {
        catch_unwind(AssertUnwindSafe(|| self.write(value))).unwrap_or(Err(Unstorable::Panicked))
    }

    fn write<V: Serialize>(&self, value: Option<&V>) -> Result<Encoded, Unstorable> {
        // With room for the header in front, since most payloads are stored as they are.
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

    /// The value, and its weight in memory. `null` says whether the entry was stored as the absence of a row; absence
    /// and a value that is written as JSON `null` are different things.
    ///
    /// A value whose `Deserialize` panics can't be read: it may be the expired one that comes with a lease.
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
    let mut digest = CRC32.digest();
    digest.update(head);
    digest.update(payload);
    digest.finalize().to_be_bytes()
}

/// Takes no more than it may, so that a value far over the limit costs no memory.
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
