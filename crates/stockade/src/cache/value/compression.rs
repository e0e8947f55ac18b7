use std::borrow::Cow;

/// How stored values are compressed: with LZ4, from a given size on. Needs the feature `lz4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it does nothing until it is given to `CacheBuilder::compress`"]
pub struct Compression {
    above: usize,
}

/// The form of a payload that is not compressed.
pub(crate) const NONE: u8 = 0;
/// The form of a payload compressed with LZ4: the size before compression (four bytes, little endian), then one block.
const LZ4: u8 = 1;
const SIZE: usize = size_of::<u32>();

impl Compression {
    /// LZ4 for values of 1 KiB and more. This size is a guess, not a measurement. [`Compression::above`] sets another.
    #[cfg(feature = "lz4")]
    pub fn lz4() -> Self {
        Self { above: 1024 }
    }

    /// Compresses values whose encoding has at least `bytes` bytes.
    pub fn above(self, bytes: usize) -> Self {
        Self { above: bytes }
    }

    /// The form and the payload to store. The payload is not compressed if that would not make it smaller.
    #[cfg_attr(not(feature = "lz4"), expect(clippy::unused_self, reason = "nobody can make one without the feature"))]
    pub(crate) fn apply(self, payload: &[u8]) -> (u8, Cow<'_, [u8]>) {
        #[cfg(feature = "lz4")]
        if payload.len() >= self.above {
            let compressed = lz4_flex::block::compress_prepend_size(payload);
            if compressed.len() < payload.len() {
                return (LZ4, Cow::Owned(compressed));
            }
        }
        (NONE, Cow::Borrowed(payload))
    }
}

/// The payload before it was compressed. `None` if its form is unknown, if it is damaged, or if it would be larger than
/// `max` bytes. The size is checked before memory is allocated.
pub(crate) fn undo(form: u8, payload: &[u8], max: usize) -> Option<Cow<'_, [u8]>> {
    match form {
        NONE => Some(Cow::Borrowed(payload)),
        LZ4 => {
            let (size, block) = payload.split_at_checked(SIZE)?;
            let size = usize::try_from(u32::from_le_bytes(size.try_into().ok()?)).ok()?;
            if size > max { None } else { inflate(block, size).map(Cow::Owned) }
        }
        _ => None,
    }
}

#[cfg(feature = "lz4")]
fn inflate(block: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; size];
    let inflated = lz4_flex::block::decompress_into(block, &mut out).ok()?;
    (inflated == size).then_some(out)
}

#[cfg(not(feature = "lz4"))]
fn inflate(_: &[u8], _: usize) -> Option<Vec<u8>> {
    None
}
