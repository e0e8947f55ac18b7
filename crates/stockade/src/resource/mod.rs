//! What is locked and cached: a resource, its one encoding to key text, and the bucket it lives in.

mod bucket;
mod digest;
mod encode;
mod error;
mod heads;
mod key;
mod name;
mod namespace;

pub(crate) use bucket::Bucket;
pub(crate) use encode::escape_into;
pub use error::KeyError;
pub(crate) use heads::Heads;
pub(crate) use key::find_by_text;
pub use key::{Key, Label};
pub(crate) use name::is_name;
pub(crate) use namespace::Namespace;

use std::borrow::Cow;

/// A thing that can be locked, cached, or both.
///
/// One newtype serves as extractor, lock resource and cache key:
///
/// ```
/// use std::borrow::Cow;
/// use stockade::Resource;
///
/// struct Sku(String);
///
/// impl Resource for Sku {
///     const KIND: &'static str = "stock";
///     fn id(&self) -> Cow<'_, str> {
///         Cow::Borrowed(&self.0)
///     }
/// }
/// ```
pub trait Resource {
    /// The kind of thing, `[a-z0-9_-]+`. It is the metric label and the first part of the key.
    const KIND: &'static str;

    /// The identity within its kind: any text, kept apart from every other by the encoding of [`Key`].
    fn id(&self) -> Cow<'_, str>;
}
