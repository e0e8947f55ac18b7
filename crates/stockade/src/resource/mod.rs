//! What is locked and cached: a resource, its one encoding to key text, and the bucket it lives in.

mod bucket;
mod digest;
mod encode;
mod error;
mod heads;
mod key;
mod name;
mod namespace;
#[cfg(test)]
mod sku;

pub(crate) use bucket::Bucket;
pub(crate) use encode::escape_into;
pub use error::KeyError;
pub(crate) use heads::Heads;
pub(crate) use key::find_by_text;
pub use key::{Key, Label};
pub(crate) use name::is_name;
pub(crate) use namespace::Namespace;
#[cfg(test)]
pub(crate) use sku::Sku;

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
///
/// # Ids of several parts
///
/// The encoding keeps ids apart, and knows nothing of the parts of an id. If two things have one id, they share a lock,
/// and each is answered with the cached value of the other. With `format!("{warehouse}:{shelf}")`, the shelf `b:c` of the
/// warehouse `a` is the shelf `c` of the warehouse `a:b`. So put in front what can't contain the separator, such as a
/// number. If every part may be any text, begin with the length of the first:
///
/// ```
/// # use std::borrow::Cow;
/// # use stockade::{Resource, resource::Key};
/// struct Shelf {
///     warehouse: String,
///     shelf: String,
/// }
///
/// impl Resource for Shelf {
///     const KIND: &'static str = "shelf";
///     fn id(&self) -> Cow<'_, str> {
///         format!("{}:{}:{}", self.warehouse.len(), self.warehouse, self.shelf).into()
///     }
/// }
/// # let key = |warehouse: &str, shelf: &str| Key::of(&Shelf { warehouse: warehouse.into(), shelf: shelf.into() });
/// # assert_ne!(key("a", "b:c")?, key("a:b", "c")?);
/// # assert_ne!(key("a", "")?, key("", "a")?);
/// # Ok::<(), stockade::resource::KeyError>(())
/// ```
pub trait Resource {
    /// The kind of thing, `[a-z0-9_-]+`. It is the metric label and the first part of the key.
    const KIND: &'static str;

    /// The identity within its kind: any text but an empty one, kept apart from every other by the encoding of [`Key`].
    /// No two things may have the same.
    fn id(&self) -> Cow<'_, str>;
}
