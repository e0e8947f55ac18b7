use std::{
    borrow::{Borrow, Cow},
    cell::RefCell,
    fmt,
    sync::Arc,
};

use super::{Bucket, KeyError, Resource, escape_into};

/// The metric label of a lock: its kind or its template, never an id.
pub type Label = Cow<'static, str>;

/// A resource in the one text form that every store uses: `kind:id` with the id escaped, or a filled-in template.
///
/// No two resources share a key, whatever their ids hold.
#[derive(Clone)]
pub struct Key {
    text: Arc<str>,
    label: Label,
    bucket: Bucket,
}

impl Key {
    /// The longest encoded key, in bytes.
    pub const MAX_LEN: usize = 512;

    /// The key of a resource.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when the kind is no name, the id is empty or the encoding is over [`Key::MAX_LEN`].
    pub fn of<R: Resource + ?Sized>(resource: &R) -> Result<Self, KeyError> {
        Self::new(R::KIND, &resource.id())
    }

    /// The key of `id` within `kind`.
    ///
    /// # Errors
    ///
    /// As [`Key::of`].
    pub fn new(kind: &'static str, id: &str) -> Result<Self, KeyError> {
        if !is_name(kind) {
            return Err(KeyError::Name(kind.to_owned()));
        }
        if id.is_empty() {
            return Err(KeyError::Empty);
        }
        let mut text = String::with_capacity(kind.len() + 1 + id.len());
        write_into(&mut text, kind, id);
        Self::encoded(Cow::Borrowed(kind), text)
    }

    /// A key whose text is already encoded: a template with its values escaped, or what an administrator typed.
    pub(crate) fn encoded(label: Label, text: String) -> Result<Self, KeyError> {
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        if text.len() > Self::MAX_LEN {
            return Err(KeyError::TooLong { len: text.len() });
        }
        let bucket = Bucket::of(&text);
        Ok(Self { text: text.into(), label, bucket })
    }

    /// The encoded text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The metric label: the kind or the template.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.label
    }

    pub(crate) fn bucket(&self) -> Bucket {
        self.bucket
    }
}

fn write_into(text: &mut String, kind: &str, id: &str) {
    text.push_str(kind);
    text.push(':');
    escape_into(text, id);
}

/// Looks something up by the text of a resource's key, for which no memory is taken. The kind must be known to be a name.
///
/// An id that has no key finds nothing, since nothing can lie under its text.
pub(crate) fn find_by_text<R: Resource + ?Sized, T>(resource: &R, find: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    thread_local! {
        static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
    }
    let id = resource.id();
    // One that is too long to have a key must not stay here as long as the thread.
    if id.len() > Key::MAX_LEN {
        return None;
    }
    TEXT.with(|text| {
        // Taken already only if `find` came here again.
        let mut text = text.try_borrow_mut().ok()?;
        text.clear();
        write_into(&mut text, R::KIND, &id);
        find(&text)
    })
}

/// Looked up by its text: hash and equality are those of the text.
impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether `text` matches `[a-z0-9_-]+`.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> String {
        Key::new("stock", id).unwrap().to_string()
    }

    #[test]
    fn ids_are_escaped_where_they_could_reach_another_key() {
        assert_eq!(key("85123A"), "stock:85123A");
        assert_eq!(key("BANK CHARGES"), "stock:BANK CHARGES");
        assert_eq!(key("a:b"), "stock:a%3Ab");
        assert_eq!(key("}x{"), "stock:%7Dx%7B");
        assert_eq!(key("100%"), "stock:100%25");
        assert_eq!(key("a\r\nb\0"), "stock:a%0D%0Ab%00");
        assert_eq!(key("caf\u{e9}/\u{85}"), "stock:caf\u{e9}/%C2%85");
    }

    #[test]
    fn the_limit_counts_encoded_bytes() {
        assert!(Key::new("stock", &"x".repeat(506)).is_ok());
        assert_eq!(Key::new("stock", &"x".repeat(507)), Err(KeyError::TooLong { len: 513 }));
        assert_eq!(Key::new("stock", &"%".repeat(200)), Err(KeyError::TooLong { len: 606 }));
        assert_eq!(Key::new("stock", ""), Err(KeyError::Empty));
        assert_eq!(Key::new("Stock", "x"), Err(KeyError::Name("Stock".into())));
    }
}
