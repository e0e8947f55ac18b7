use std::{convert::Infallible, fmt, hash::Hasher};

use axum::{
    http::{
        HeaderMap,
        header::{ETAG, IF_MATCH},
    },
    response::{IntoResponseParts, ResponseParts},
};
use siphasher::sip128::{Hash128, Hasher128, SipHasher24};

use super::{
    FromCache,
    conditional::{Comparison, any_names},
    header_text::header,
};
use crate::resource::{Key, KeyError, find_by_text};

/// A strong entity tag (RFC 9110, section 8.8.3): the version of a value, and a hash that identifies the value and its
/// view. The hash hides nothing: who sees it can find the key of the value by trying likely ones.
///
/// The hash covers the name of the cache, the key, and the name of the value's type with its schema. For a view made by
/// [`Cached::map`](super::Cached::map) it also covers the bytes of the view's JSON. Two keys therefore never share a
/// tag, and neither do two views of one value: a client with the answer for one user never gets 304 for another user's.
///
/// `Display` writes it as in the header, with its quotes: `"41-0f1e2d3c4b5a69788796a5b4c3d2e1f0"`. A write that is for
/// the row as its client has seen it, with `version` read in the transaction of the write:
///
/// ```
/// # use std::{borrow::Cow, convert::Infallible};
/// # use axum::{extract::FromRequestParts, http::request::Parts};
/// # use stockade::{Cache, Resource, extract::FromCache};
/// # #[derive(Clone)]
/// # struct Sku(String);
/// # impl Resource for Sku {
/// #     const KIND: &'static str = "stock";
/// #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
/// # }
/// # impl<S: Sync> FromRequestParts<S> for Sku {
/// #     type Rejection = Infallible;
/// #     async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> { Ok(Sku("a".into())) }
/// # }
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Stock { version: u64 }
/// # struct App { stocks: Cache<Sku, Stock> }
/// # impl FromCache<App> for Stock {
/// #     type Key = Sku;
/// #     fn cache(app: &App) -> &Cache<Sku, Stock> { &app.stocks }
/// #     fn version(&self) -> Option<u64> { Some(self.version) }
/// # }
/// use axum::http::{HeaderMap, StatusCode};
/// use stockade::extract::EntityTag;
///
/// fn check(app: &App, headers: &HeaderMap, sku: &Sku, version: u64) -> Result<(), StatusCode> {
///     let present = EntityTag::of::<Stock, _>(app, sku, version).map_err(|_| StatusCode::BAD_REQUEST)?;
///     if present.meets_if_match(headers) { Ok(()) } else { Err(StatusCode::PRECONDITION_FAILED) }
/// }
/// # let stocks = Cache::memory().loader(|_: Sku| async { Ok::<_, Infallible>(None) }).build();
/// # let app = App { stocks };
/// # let sku = Sku("85123A".into());
/// # let with = |tags: &str| HeaderMap::from_iter([(axum::http::header::IF_MATCH, tags.parse().unwrap())]);
/// # let seen = EntityTag::of::<Stock, _>(&app, &sku, 1)?.to_string();
/// # assert_eq!(check(&app, &with(&seen), &sku, 1), Ok(()));
/// # assert_eq!(check(&app, &with(&seen), &sku, 2), Err(StatusCode::PRECONDITION_FAILED));
/// # assert_eq!(check(&app, &HeaderMap::new(), &sku, 2), Ok(()));
/// # assert_eq!(check(&app, &with("*"), &sku, 2), Ok(()));
/// # assert_eq!(check(&app, &with(&format!("\"6\", {seen}")), &sku, 1), Ok(()));
/// # assert_eq!(check(&app, &with(&format!("W/{seen}")), &sku, 1), Err(StatusCode::PRECONDITION_FAILED));
/// # Ok::<(), stockade::resource::KeyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntityTag {
    version: u64,
    hash: u128,
}

impl EntityTag {
    /// The tag that [`Cached<T>`](super::Cached) answers with for this version of the value of `key`. A write compares
    /// `If-Match` with the tag of the row it read, and answers with the tag of the row it wrote.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when the resource has no key.
    pub fn of<T: FromCache<S>, S>(state: &S, key: &T::Key, version: u64) -> Result<Self, KeyError> {
        let cache = T::cache(state);
        let mut hasher = hasher();
        add(&mut hasher, cache.name().as_bytes());
        add(&mut hasher, &cache.core.settings.envelope.meaning.to_be_bytes());
        let tag = |key: &str| {
            let mut hasher = hasher;
            add(&mut hasher, key.as_bytes());
            Self { version, hash: hasher.finish128().as_u128() }
        };
        // The look-up allocates nothing. If it finds no text, `Key::of` knows why.
        match find_by_text(key, |text| Some(tag(text))) {
            Some(tag) => Ok(tag),
            None => Key::of(key).map(|key| tag(key.as_str())),
        }
    }

    /// Whether `If-Match` allows a write to the row with this tag: there is no such header, or it is `*`, or it names
    /// the tag (RFC 9110, section 13.1.1). A weak tag names nothing. If there is no row, `If-Match` allows no write.
    #[must_use]
    pub fn meets_if_match(self, headers: &HeaderMap) -> bool {
        let mut lines = headers.get_all(IF_MATCH).iter().peekable();
        lines.peek().is_none() || any_names(lines, self.to_string().as_bytes(), Comparison::Strong)
    }

    /// The tag of a view of the value. It covers the bytes, because a view may depend on the client.
    pub(super) fn of_view(self, bytes: &[u8]) -> Self {
        let mut hash = hasher();
        add(&mut hash, &self.hash.to_be_bytes());
        add(&mut hash, bytes);
        Self { hash: hash.finish128().as_u128(), ..self }
    }
}

/// The same in every instance, so that all give the same tags.
fn hasher() -> SipHasher24 {
    SipHasher24::new_with_key(b"stockade etag v1")
}

/// Hashes a part with its length in front, so that two parts can't be confused with one.
fn add(hasher: &mut SipHasher24, part: &[u8]) {
    hasher.write(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
    hasher.write(part);
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In halves, because 128 bits at once are formatted digit by digit.
        let Hash128 { h1: low, h2: high } = Hash128::from(self.hash);
        write!(f, "\"{}-{high:016x}{low:016x}\"", self.version)
    }
}

/// Sets `ETag`.
impl IntoResponseParts for EntityTag {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        if let Some(tag) = header(self) {
            response.headers_mut().insert(ETAG, tag);
        }
        Ok(response)
    }
}
