use std::fmt;

use siphasher::sip128::SipHasher24;

/// The key of the hash in entity tags: 16 bytes that every instance of a service must share and keep over restarts.
///
/// The default is a constant of this library, the same in every program. It keeps the tags of different keys apart,
/// which is what no client may confuse, and needs no setting. It hides nothing: whoever sees a tag, in a log for
/// instance, and knows the names of the cache and of its type can find the key by trying likely ones. Where keys are
/// worth hiding, such as account numbers or e-mail addresses, give 16 random bytes, from the place where the service
/// has its other secrets:
///
/// ```
/// # use stockade::extract::EtagKey;
/// # let secret = "ab54d286e3f04a1b9c0d7e8f11223344";
/// let key = u128::from_str_radix(secret, 16).map(|key| EtagKey::new(key.to_be_bytes()))?; // openssl rand -hex 16
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
///
/// With another key every client loads once more, and a write with `If-Match` from before is answered 412: change it
/// seldom. While instances differ in it, clients that move between them get 200 instead of 304.
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

/// The constant of this library: see the type on what it is worth.
impl Default for EtagKey {
    fn default() -> Self {
        Self(*b"stockade etag v1")
    }
}

/// Without the bytes.
impl fmt::Debug for EtagKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EtagKey(..)")
    }
}
