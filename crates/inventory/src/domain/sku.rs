use std::{borrow::Cow, fmt, sync::Arc};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use stockade::Resource;
use utoipa::ToSchema;

/// A stock keeping unit: 1 to 64 characters, none of them a control character, not blank, and neither `.` nor `..`.
/// Kept as given.
///
/// A route names a SKU, a lock protects it, and the cache is keyed by it. Parsers of URLs resolve the path segments `.`
/// and `..`, encoded or not, so no route could name such a SKU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(
    value_type = String,
    min_length = 1,
    max_length = 64,
    // Somewhere a character that is neither white space nor a dot, or three dots, or a dot beside white space.
    pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*\
        ([^\\u0000-\\u001f\\u007f-\\u009f\\s.]|\\.\\.\\.|\
        \\.[^\\u0000-\\u001f\\u007f-\\u009f\\S]|[^\\u0000-\\u001f\\u007f-\\u009f\\S]\\.)\
        [^\\u0000-\\u001f\\u007f-\\u009f]*$",
    example = "85123A"
)]
pub struct Sku(Arc<str>);

/// Why a text is no SKU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkuError {
    /// No character, or white space only.
    #[error("the SKU is blank: it needs a character that is not white space")]
    Blank,
    /// More than 64 characters.
    #[error("the SKU is too long: it has at most {max} characters", max = Sku::MAX_CHARS)]
    TooLong,
    /// A control character.
    #[error("the SKU holds a control character")]
    Control,
    /// `.` or `..`.
    #[error("the SKU is `.` or `..`, which no path of a URL can name: add another character")]
    Dots,
}

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Sku {
    /// The longest SKU, in Unicode scalar values.
    pub const MAX_CHARS: usize = 64;

    /// Checks `text`.
    ///
    /// # Errors
    ///
    /// [`SkuError`].
    pub fn new(text: &str) -> Result<Self, SkuError> {
        if text.chars().nth(Self::MAX_CHARS).is_some() {
            return Err(SkuError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(SkuError::Control);
        }
        if text.chars().all(char::is_whitespace) {
            return Err(SkuError::Blank);
        }
        if matches!(text, "." | "..") {
            return Err(SkuError::Dots);
        }
        Ok(Self(text.into()))
    }

    /// The SKU of a row. Earlier versions took `.` and `..`, and one such row must not stop what reads many.
    ///
    /// # Errors
    ///
    /// [`SkuError`].
    pub fn of_row(text: &str) -> Result<Self, SkuError> {
        match Self::new(text) {
            Err(SkuError::Dots) => Ok(Self(text.into())),
            sku => sku,
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as one segment of a URL's path: percent-encoded but for the unreserved characters of RFC 3986.
    #[must_use]
    pub fn path_segment(&self) -> impl fmt::Display + '_ {
        utf8_percent_encode(&self.0, SEGMENT)
    }
}

impl fmt::Display for Sku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl Serialize for Sku {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Sku {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skus_found_in_real_order_lines_are_taken_as_they_are() {
        for text in ["85123A", "BANK CHARGES", "gift_0001_20", "m", "a/b", " padded ", "caf\u{e9}", "\u{200b}x"] {
            assert_eq!(Sku::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn the_limit_counts_characters_not_bytes() {
        assert!(Sku::new(&"\u{1f4e6}".repeat(64)).is_ok());
        assert_eq!(Sku::new(&"x".repeat(65)), Err(SkuError::TooLong));
    }

    #[test]
    fn blanks_and_control_characters_are_refused() {
        for text in ["", " ", "\u{3000}\u{a0}"] {
            assert_eq!(Sku::new(text), Err(SkuError::Blank), "{text:?}");
        }
        for text in ["a\0", "\r\nFLUSHALL", "\u{7f}", "\u{85}", "\t"] {
            assert_eq!(Sku::new(text), Err(SkuError::Control), "{text:?}");
        }
    }

    #[test]
    fn a_sku_that_no_url_can_name_is_refused() {
        for text in [".", ".."] {
            assert_eq!(Sku::new(text), Err(SkuError::Dots), "{text:?}");
            assert_eq!(Sku::of_row(text).unwrap().as_str(), text);
        }
        assert_eq!(Sku::of_row(" "), Err(SkuError::Blank));
        for text in ["...", ". ", " .", ".a", "a..", ".\u{3000}"] {
            assert_eq!(Sku::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn every_sku_has_a_key() {
        for widest in ["\u{1f4e6}", "%", ":", "{"] {
            let sku = Sku::new(&widest.repeat(Sku::MAX_CHARS)).unwrap();
            assert!(stockade::resource::Key::of(&sku).is_ok(), "{widest:?}");
        }
    }
}
