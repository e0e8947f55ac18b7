use std::any::type_name;

/// A number that sets the values of a cache apart from those of other versions of the program.
///
/// It is stored in Redis, so every build must compute the same number. The hashes of the standard library do not
/// promise that, so this is FNV-1a.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of the type's full name, with its path and type arguments, and of the application's `schema`.
    ///
    /// The fields of the type are not part of it. Serde shows them only as far as reading an example value gets, so a
    /// fingerprint of the fields would seem complete although it is not.
    pub(super) fn of<V>(schema: u32) -> Self {
        Self(0xcbf2_9ce4_8422_2325)
            .with(type_name::<V>().as_bytes())
            // Ends the name: this byte never occurs in UTF-8.
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
