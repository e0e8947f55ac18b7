use std::sync::Arc;

/// Separates the tags of one value. No tag holds it, since it is a control character.
const SEPARATOR: char = '\n';

/// A name that several values share, to be invalidated together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tag(Arc<str>);

impl Tag {
    /// Marks a tag in a place that may also hold a resource. No resource begins with it.
    pub(crate) const MARK: char = '#';
    /// The length of the longest tag, in bytes of UTF-8.
    pub(crate) const MAX_LEN: usize = 128;

    pub(crate) fn new(text: impl AsRef<str>) -> Result<Self, TagError> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(TagError::Empty);
        }
        if text.len() > Self::MAX_LEN {
            return Err(TagError::TooLong { len: text.len() });
        }
        if text.chars().any(char::is_control) {
            return Err(TagError::Control);
        }
        Ok(Self(text.into()))
    }

    /// Stands for all values of the cache, including those without tags. No loader can give it.
    pub(crate) fn all() -> Self {
        Self("".into())
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// The tag whose text follows [`Tag::MARK`] in [`Tag::marked`].
    #[cfg(feature = "postgres")]
    pub(crate) fn unmarked(text: &str) -> Result<Self, TagError> {
        if text.is_empty() { Ok(Self::all()) } else { Self::new(text) }
    }

    /// The tag as text for a place that may also hold a resource.
    pub(crate) fn marked(&self) -> String {
        format!("{}{}", Self::MARK, self.0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The tags of one value, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags(Option<Arc<str>>);

impl Tags {
    /// The largest number of tags of one value.
    pub(crate) const MAX: usize = 32;

    pub(crate) fn new<T: AsRef<str>>(tags: impl IntoIterator<Item = T>) -> Result<Self, TagError> {
        let mut each: Vec<Tag> = Vec::new();
        for tag in tags {
            let tag = Tag::new(tag)?;
            if each.contains(&tag) {
                continue;
            }
            if each.len() == Self::MAX {
                return Err(TagError::TooMany);
            }
            each.push(tag);
        }
        let joined = each.iter().map(Tag::as_str).collect::<Vec<_>>().join("\n");
        Ok(Self::packed(&joined))
    }

    /// The tags from the text that [`Tags::as_packed`] returned.
    pub(crate) fn packed(text: &str) -> Self {
        Self((!text.is_empty()).then(|| text.into()))
    }

    /// The tags as they are stored: with a line feed between them.
    pub(crate) fn as_packed(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|text| text.split(SEPARATOR))
    }
}

/// Why a tag, or the tags of a value, were refused. Nothing was stored or sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TagError {
    /// A tag is empty.
    #[error("a tag is empty: give it one character or more")]
    Empty,
    /// A tag is longer than 128 bytes.
    #[error("a tag has {len} bytes, the limit is {max}: use a shorter one, such as an id", max = Tag::MAX_LEN)]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A tag has a control character, for instance a line break.
    #[error("a tag has a control character: leave it out")]
    Control,
    /// A value has more than 32 tags.
    #[error("a value has more than {max} tags: tag it by what is written together", max = Tags::MAX)]
    TooMany,
    /// The cache is strict. Such a cache must hear before the COMMIT which keys a transaction writes, but the keys of a
    /// tag are not known then: some of its values may still be loading. For the same reason no transaction can clear a
    /// strict cache.
    #[error(
        "the cache `{0}` is strict and takes no tags, and no `clear` in a transaction: invalidate by key, or build it \
         without `.strict()`"
    )]
    Strict(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_short_text_without_control_characters() {
        for good in ["supplier:7", "BANK CHARGES", "caf\u{e9}", "{a}", "%", "#", &"x".repeat(128)] {
            assert_eq!(Tag::new(good).unwrap().as_str(), good);
        }
        assert_eq!(Tag::new(""), Err(TagError::Empty));
        assert_eq!(Tag::new("x".repeat(129)), Err(TagError::TooLong { len: 129 }));
        for bad in ["a\nb", "\0", "a\u{85}", "\u{7f}"] {
            assert_eq!(Tag::new(bad), Err(TagError::Control));
        }
    }

    #[test]
    fn the_tags_of_a_value_are_counted_once_each_and_come_back_as_they_were() {
        let many: Vec<_> = (0..32).map(|number| number.to_string()).collect();
        let tags = Tags::new(many.iter().chain(&many)).unwrap();
        assert_eq!(tags.iter().collect::<Vec<_>>(), many);
        assert_eq!(Tags::packed(tags.as_packed()), tags);
        assert_eq!(Tags::new((0..33).map(|number| number.to_string())), Err(TagError::TooMany));
        let none = Tags::new(Vec::<String>::new()).unwrap();
        assert!(none.is_empty() && none.iter().next().is_none() && none == Tags::default());
    }
}
