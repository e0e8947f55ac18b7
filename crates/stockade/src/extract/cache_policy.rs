use std::{convert::Infallible, time::Duration};

use axum::{
    http::{
        HeaderMap, HeaderValue,
        header::{CACHE_CONTROL, VARY},
    },
    response::{IntoResponseParts, ResponseParts},
};

/// How HTTP caches may keep an answer: its `Cache-Control` and `Vary` (RFC 9111). Default [`CachePolicy::private`].
///
/// | policy | `Cache-Control` |
/// |---|---|
/// | [`CachePolicy::private`] | `private, no-cache` |
/// | [`CachePolicy::shared`] | `no-cache` |
/// | [`CachePolicy::no_store`] | `no-store` |
/// | with [`CachePolicy::max_age`] | `max-age=N` in place of `no-cache` |
///
/// The default is right for values of one user. No proxy or CDN keeps the answer, and a browser asks before each use,
/// so the next user of that browser gets their own answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachePolicy {
    keep: Keep,
    max_age: Option<Duration>,
    vary: Option<HeaderValue>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Keep {
    #[default]
    Private,
    Shared,
    Nowhere,
}

impl CachePolicy {
    /// Only the client keeps the answer, and asks before each use.
    #[must_use]
    pub fn private() -> Self {
        Self::default()
    }

    /// Proxies and CDNs keep the answer too, and ask before each use whether it is still valid. Use it for answers that
    /// are the same for every client. An answer to a request with `Authorization` is still kept by the client alone
    /// (RFC 9111, section 3.5).
    #[must_use]
    pub fn shared() -> Self {
        Self { keep: Keep::Shared, ..Self::default() }
    }

    /// Nobody keeps the answer.
    #[must_use]
    pub fn no_store() -> Self {
        Self { keep: Keep::Nowhere, ..Self::default() }
    }

    /// The answer is used without asking until the value has this age, in whole seconds. Until then a client may miss a
    /// write.
    ///
    /// The age counts from the load of the value, as `Age` does. For a value that is older already, clients ask before
    /// each use. Answers given outside the normal rules never carry it. An answer that depends on the user also needs
    /// [`CachePolicy::vary`].
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = Some(max_age);
        self
    }

    /// The request headers that the answer depends on, as in `Vary`: for instance `cookie` or `authorization` if it
    /// differs by user. Other `Vary` headers of the answer stay.
    #[must_use]
    pub fn vary(mut self, headers: HeaderValue) -> Self {
        self.vary = Some(headers);
        self
    }

    /// The policy for an answer that may be outdated: nobody uses it again without asking.
    pub(super) fn unvouched(&self) -> Self {
        Self { max_age: None, ..self.clone() }
    }

    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let control = match (self.keep, self.max_age) {
            (Keep::Nowhere, _) => Ok(HeaderValue::from_static("no-store")),
            (Keep::Private, None) => Ok(HeaderValue::from_static("private, no-cache")),
            (Keep::Shared, None) => Ok(HeaderValue::from_static("no-cache")),
            (Keep::Private, Some(age)) => HeaderValue::try_from(format!("private, max-age={}", age.as_secs())),
            (Keep::Shared, Some(age)) => HeaderValue::try_from(format!("max-age={}", age.as_secs())),
        };
        if let Ok(control) = control {
            headers.insert(CACHE_CONTROL, control);
        }
        if let Some(vary) = &self.vary {
            headers.append(VARY, vary.clone());
        }
    }
}

/// In the extensions of an answer that was given outside the normal rules.
#[derive(Clone, Copy)]
pub(super) struct Unvouched;

/// Sets `Cache-Control`, and adds to `Vary`. In front of a [`Cached`](super::Cached), or behind a
/// [`CacheInfo`](crate::cache::CacheInfo), it leaves out `max-age` if the answer was given outside the normal rules.
impl IntoResponseParts for CachePolicy {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        let policy = if response.extensions_mut().get::<Unvouched>().is_some() { self.unvouched() } else { self };
        policy.write(response.headers_mut());
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_header() {
        let minute = Duration::from_secs(60);
        for (policy, control) in [
            (CachePolicy::default(), "private, no-cache"),
            (CachePolicy::private().max_age(minute), "private, max-age=60"),
            (CachePolicy::shared(), "no-cache"),
            (CachePolicy::shared().max_age(minute), "max-age=60"),
            (CachePolicy::shared().max_age(minute).unvouched(), "no-cache"),
            (CachePolicy::private().max_age(minute).unvouched(), "private, no-cache"),
            (CachePolicy::no_store().max_age(minute), "no-store"),
        ] {
            let mut headers = HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static("public"))]);
            policy.write(&mut headers);
            assert_eq!(headers.get_all(CACHE_CONTROL).iter().collect::<Vec<_>>(), [control], "{policy:?}");
        }
    }

    #[test]
    fn what_an_answer_varies_by_is_added_to() {
        let mut headers = HeaderMap::from_iter([(VARY, HeaderValue::from_static("accept-encoding"))]);
        CachePolicy::private().vary(HeaderValue::from_static("cookie")).write(&mut headers);
        assert_eq!(headers.get_all(VARY).iter().collect::<Vec<_>>(), ["accept-encoding", "cookie"]);
    }
}
