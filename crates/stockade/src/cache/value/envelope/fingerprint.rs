use std::any::type_name;

/// A number for what sets the values of a cache apart from those of other versions of the program, by FNV-1a.
///
/// It stands in Redis, so every build has to compute the same: the hashes of the standard library promise no such
/// thing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// Of the full name of the type, with its path and its type arguments, and the `schema` that the application gives
    /// it.
    ///
    /// What the type consists of has no part in it: serde shows a type only as far as reading an example gets, and half
    /// a look would be taken for a whole one.
    pub(super) fn of<V>(schema: u32) -> Self {
        Self(0xcbf2_9ce4_8422_2325)
            .with(type_name::<V>().as_bytes())
            // No byte of UTF-8: it ends the name.
            .with(&[0xff])
            .with(&schema.to_be_bytes())
    }

    pub(super) fn with(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}
