use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::Frame;

/// An absent body of unknown length. In a 304, `Content-Length: 0` would be the length of the value that the client has
/// (RFC 9110, section 8.6).
struct NoBody;

pub(super) fn no_body() -> Body {
    Body::new(NoBody)
}

impl http_body::Body for NoBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}
