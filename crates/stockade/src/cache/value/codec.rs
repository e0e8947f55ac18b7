use std::io::Write;

use serde::{Serialize, de::DeserializeOwned};

/// How values are written in Redis.
///
/// Both are self-describing, so `#[serde(default)]`, `skip_serializing_if`, `flatten` and untagged enums work as usual.
///
/// Neither tells `Some(None)` from `None` in an `Option` of an `Option`. JSON has no infinite numbers and no NaN, and
/// stores them as `null`: a value with such a number can't be read back and is loaded on every read, or, if the number
/// is in an `Option`, comes back with `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// JSON: readable with `redis-cli`.
    #[default]
    Json,
    /// MessagePack with the names of fields: smaller than JSON and faster to read. Byte strings need `serde_bytes` to
    /// be stored compactly.
    #[cfg(feature = "msgpack")]
    MessagePack,
}

/// Why a value could not be encoded.
pub(crate) type EncodeError = Box<dyn std::error::Error + Send + Sync>;

impl Codec {
    /// The number of this codec in a stored value. A number must never be reused for another codec.
    pub(crate) fn id(self) -> u8 {
        match self {
            Self::Json => 1,
            #[cfg(feature = "msgpack")]
            Self::MessagePack => 2,
        }
    }

    #[cfg_attr(
        not(feature = "msgpack"),
        expect(unused_mut, reason = "one writer takes it by value, the other does not")
    )]
    pub(crate) fn write<V: Serialize>(self, value: &V, mut out: impl Write) -> Result<(), EncodeError> {
        match self {
            Self::Json => serde_json::to_writer(out, value).map_err(Into::into),
            #[cfg(feature = "msgpack")]
            Self::MessagePack => rmp_serde::encode::write_named(&mut out, value).map_err(Into::into),
        }
    }

    pub(crate) fn read<V: DeserializeOwned>(self, bytes: &[u8]) -> Option<V> {
        match self {
            Self::Json => serde_json::from_slice(bytes).ok(),
            #[cfg(feature = "msgpack")]
            Self::MessagePack => rmp_serde::from_slice(bytes).ok(),
        }
    }
}
