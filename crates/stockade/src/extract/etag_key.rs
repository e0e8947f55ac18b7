use std::fmt;

use siphasher::sip128::SipHasher24;

/// The key of the hash in entity tags: 16 bytes that every instance of a service must share and keep over restarts.
///
/// The default is a constant of this library, the same in every program. It needs no setting, and it keeps the tags of
/// different keys apart. It hides nothing: somebody who sees a tag, for instance in a log, and knows the names of the
/// cache and of its type can find the key by trying likely ones. If keys are worth hiding, such as account numbers or
/// e-mail addresses, give 16 random bytes from the place where the service keeps its other secrets:
///
/// ```
/// # use stockade::extract::EtagKey;
/// # let secret = "ab54d286e3f04a1b9c0d7e8f11223344";
/// let key = u128::from_str_radix(secret, 16).map(|key| EtagKey::new(key.to_be_bytes()))?; // openssl rand -hex 16
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
///
/// Change the key seldom. After a change every client gets its values once more, and a write with an older `If-Match`
/// is answered 412. While instances have different keys, clients that move between them get 200 instead of 304.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EtagKey([u8; 16]);

impl EtagKey {
    /// A key of 16 random bytes.
    #[must_use]
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    pub(super) fn hasher(&self) -> SipHasher24 {
        SipHasher24::new_with_key(&self.0)
    }
}

/// The constant of this library. The docs of the type say what it protects from.
impl Default for EtagKey {
    fn default() -> Self {
        Self(*b"stockade etag v1")
    }
}

/// Does not show the bytes.
impl fmt::Debug for EtagKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EtagKey(..)")
    }
}
