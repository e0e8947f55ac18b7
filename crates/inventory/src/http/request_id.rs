use std::{fmt, sync::Arc};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the id, in requests and answers.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request in logs and answers: the client's own id if it is valid, else a random one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    const MAX_LEN: usize = 128;

    /// Takes the id of the request, or makes one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        headers.get(REQUEST_ID).and_then(Self::accept).unwrap_or_else(Self::make)
    }

    /// Visible ASCII only: an id goes into logs and back into a header.
    fn accept(value: &HeaderValue) -> Option<Self> {
        let bytes = value.as_bytes();
        if bytes.is_empty() || bytes.len() > Self::MAX_LEN || !bytes.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        value.to_str().ok().map(|text| Self(text.into()))
    }

    fn make() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()).into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The ids of a W3C `traceparent`, with which a caller's trace goes on in this service's spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace_id: String,
    pub(crate) parent_id: String,
}

impl TraceParent {
    /// Reads `traceparent`. A malformed one is ignored, as the specification asks.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let mut fields = text.split('-');
        let (version, trace_id, parent_id, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        // Later versions may add fields at the end; version ff is forbidden, and version 00 has just these four.
        let known = version != "ff" && (version != "00" || fields.next().is_none());
        let lengths = [(version, 2), (trace_id, 32), (parent_id, 16), (flags, 2)];
        let hex = |(field, len): (&str, usize)| {
            field.len() == len && field.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let not_zero = |field: &str| field.bytes().any(|b| b != b'0');
        (known && lengths.into_iter().all(hex) && not_zero(trace_id) && not_zero(parent_id))
            .then(|| Self { trace_id: trace_id.to_owned(), parent_id: parent_id.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        headers
    }

    #[test]
    fn a_sensible_id_is_taken_and_another_replaced() {
        let id = |text: &str| RequestId::of(&headers("x-request-id", text)).to_string();
        assert_eq!(id("order-17/a"), "order-17/a");
        for text in ["", "two words", "caf\u{e9}", &"x".repeat(129)] {
            assert_eq!(id(text).len(), 32, "{text:?}");
            assert_ne!(id(text), text);
        }
    }

    #[test]
    fn a_traceparent_is_continued_only_when_well_formed() {
        let parse = |text: &str| TraceParent::of(&headers("traceparent", text));
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(parse(good).unwrap().trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(parse(&format!("{good}-extra")).is_none());
        assert!(parse(&good.replacen("00", "01", 1)).is_some());
        assert!(parse(&good.replace("4bf9", "4BF9")).is_none());
        assert!(parse(&good.replacen("00-", "ff-", 1)).is_none());
        assert!(parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01").is_none());
    }
}
