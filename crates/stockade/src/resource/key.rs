use std::{
    borrow::{Borrow, Cow},
    cell::RefCell,
    fmt,
    sync::Arc,
};

use super::{Bucket, KeyError, Resource, digest, escape_into, is_name};

/// The metric label of a lock: its kind or its template, never an id.
pub type Label = Cow<'static, str>;

/// A resource in the one text form that every store uses: `kind:id` with the id escaped, or a filled-in template.
///
/// A text over [`Key::MAX_LEN`] is stored as its kind and its SHA-256: `kind:%sha256-` and 64 hex digits. No escaped id
/// contains that, so a hashed key never equals one that is not.
///
/// An id may be private. [`Display`](fmt::Display) and [`Debug`](fmt::Debug) of a key, and `Debug` of an error that
/// holds one, show the text in full, and logs below WARN may. Messages of errors and logs from WARN up show the label
/// at most. One log is an exception: if another program has overwritten a key of a lock, it names that key of Redis.
///
/// No two resources share a key, whatever their ids hold.
#[derive(Clone)]
pub struct Key {
    text: Arc<str>,
    /// The text that was hashed.
    full: Option<Arc<str>>,
    label: Label,
    bucket: Bucket,
}

impl Key {
    /// The longest key that is stored as it is, in bytes. A longer one is hashed.
    pub const MAX_LEN: usize = 512;

    /// The key of a resource.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when the kind is no name or the id is empty.
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
        let (text, full) =
            if text.len() > Self::MAX_LEN { (digest::of(&text), Some(text.into())) } else { (text, None) };
        let bucket = Bucket::of(&text);
        Ok(Self { text: text.into(), full, label, bucket })
    }

    /// The encoded text, as stores have it: hashed when it is over [`Key::MAX_LEN`].
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The encoded text before it was hashed.
    fn full(&self) -> &str {
        self.full.as_deref().unwrap_or(&self.text)
    }

    /// How many bytes of text it holds.
    pub(crate) fn size(&self) -> usize {
        self.text.len() + self.full.as_ref().map_or(0, |full| full.len())
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

/// Looks something up by the text of a resource's key, for which no memory is taken. The kind must be known to be a
/// name.
///
/// An id that has no key finds nothing. One that has to be hashed does take
/// memory.
pub(crate) fn find_by_text<R: Resource + ?Sized, T>(resource: &R, find: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    thread_local! {
        static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
    }
    let id = resource.id();
    if id.is_empty() {
        return None;
    }
    // A long one must not stay here as long as the thread.
    if id.len() > Key::MAX_LEN {
        return find(Key::new(R::KIND, &id).ok()?.as_str());
    }
    TEXT.with(|text| {
        // Taken already only if `find` came here again.
        let mut text = text.try_borrow_mut().ok()?;
        text.clear();
        write_into(&mut text, R::KIND, &id);
        if text.len() > Key::MAX_LEN { find(&digest::of(&text)) } else { find(&text) }
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
        fmt::Debug::fmt(self.full(), f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.full())
    }
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
    fn what_is_over_the_limit_in_encoded_bytes_is_hashed_and_shown_in_full() {
        assert_eq!(Key::new("stock", &"x".repeat(506)).unwrap().as_str().len(), 512);
        let text = format!("stock:{}", "x".repeat(507));
        let long = Key::new("stock", &"x".repeat(507)).unwrap();
        let hash = "9fef36d08379c4d13d82ca7f92cfa5211af0a22f796d38500f4f33d0a934b4a7";
        assert_eq!(long.as_str(), format!("stock:%sha256-{hash}"));
        assert_eq!((long.to_string(), format!("{long:?}")), (text.clone(), format!("{text:?}")));
        assert_eq!(Key::new("stock", &"%".repeat(200)).unwrap().as_str().len(), "stock:%sha256-".len() + 64);
        assert_ne!(long, Key::new("stock", &"x".repeat(508)).unwrap());
        assert_ne!(long, Key::new("order", &"x".repeat(507)).unwrap());
        assert_eq!(long.label(), "stock");
        assert_eq!(Key::new("stock", ""), Err(KeyError::Empty));
        assert_eq!(Key::new("Stock", "x"), Err(KeyError::Name("Stock".into())));
    }

    #[test]
    fn a_hashed_key_is_found_by_either_text_and_never_by_an_id() {
        let long = Key::new("stock", &"x".repeat(600)).unwrap();
        let typed = |text: &str| Key::encoded(Cow::Borrowed("admin"), text.to_owned()).unwrap();
        assert_eq!(typed(long.as_str()), long);
        let shown = long.to_string();
        assert_eq!(typed(&shown), long);
        let id = long.as_str().strip_prefix("stock:").unwrap();
        assert_ne!(Key::new("stock", id).unwrap(), long);

        struct Sku(String);
        impl Resource for Sku {
            const KIND: &'static str = "stock";
            fn id(&self) -> Cow<'_, str> {
                Cow::Borrowed(&self.0)
            }
        }
        // By its own length, by that of its encoding, and not at all.
        for id in ["x".repeat(600), "%".repeat(300), "x".to_owned()] {
            let found = find_by_text(&Sku(id.clone()), |text| Some(text.to_owned()));
            assert_eq!(found.as_deref(), Some(Key::new("stock", &id).unwrap().as_str()));
        }
        assert_eq!(find_by_text(&Sku(String::new()), |_| Some(())), None);
    }
}
