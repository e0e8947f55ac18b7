use std::{error::Error, iter, mem, pin::pin, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, header::CONTENT_LENGTH},
};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::{BodyExt, Full, LengthLimitError};

use super::Problem;

/// Limits for reading the body of a request. It is read before the lock is asked for, so that a slow upload never holds
/// a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upload {
    pub(crate) limit: usize,
    pub(crate) timeout: Duration,
}

/// A body in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl From<Whole> for Body {
    fn from(Whole { data, trailers }: Whole) -> Self {
        match trailers {
            None if data.is_empty() => Self::empty(),
            None => Self::new(Full::new(data)),
            Some(trailers) => Self::new(Full::new(data).with_trailers(std::future::ready(Some(Ok(trailers))))),
        }
    }
}

impl Upload {
    /// Reads the whole body into memory.
    pub(crate) async fn read(self, headers: &HeaderMap, body: Body) -> Result<Whole, Problem> {
        if body.is_end_stream() {
            return Ok(Whole::default());
        }
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.unwrap_or_default().max(body.size_hint().lower()) > self.limit as u64 {
            return Err(Problem::BodyTooLarge);
        }
        tokio::time::timeout(self.timeout, self.collect(body)).await.unwrap_or(Err(Problem::BodyTimeout))
    }

    async fn collect(self, body: Body) -> Result<Whole, Problem> {
        let mut body = pin!(body);
        // A single chunk is kept as it came. Several chunks are copied into one buffer: each chunk keeps the read
        // buffer alive that it is cut from, so a body that is sent byte by byte would cost many times its size.
        let (mut first, mut all) = (Bytes::new(), BytesMut::new());
        let mut trailers = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| unreadable(&error))?;
            match frame.into_data() {
                // One of the two is empty.
                Ok(chunk) if chunk.len() > self.limit - first.len() - all.len() => return Err(Problem::BodyTooLarge),
                Ok(chunk) if first.is_empty() && all.is_empty() => first = chunk,
                Ok(chunk) => {
                    all.extend_from_slice(&mem::take(&mut first));
                    all.extend_from_slice(&chunk);
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
        }
        Ok(Whole { data: if all.is_empty() { first } else { all.freeze() }, trailers })
    }
}

/// What became of a body that ended with an error: a limit further out is also an end.
fn unreadable(error: &axum::Error) -> Problem {
    tracing::debug!(%error, "a body broke off before the lock was asked for");
    let first: &(dyn Error + 'static) = error;
    if iter::successors(Some(first), |&error| error.source()).any(|error| error.is::<LengthLimitError>()) {
        return Problem::BodyTooLarge;
    }
    Problem::BadRequest
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::http::HeaderValue;
    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::{Limited, StreamBody};

    use super::*;

    const UPLOAD: Upload = Upload { limit: 6, timeout: Duration::from_secs(5) };

    fn chunks(chunks: &'static [&'static str]) -> Body {
        Body::from_stream(stream::iter(chunks.iter().map(|chunk| Ok::<_, Infallible>(Bytes::from(*chunk)))))
    }

    #[tokio::test]
    async fn a_body_up_to_the_limit_arrives_whole() {
        let body = Body::from(UPLOAD.read(&HeaderMap::new(), chunks(&["ab", "", "cd", "ef"])).await.unwrap());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcdef");
    }

    #[tokio::test]
    async fn one_byte_over_the_limit_is_too_much() {
        for sent in [&["abcdefg"][..], &["abc", "defg"], &["ab", "cd", "ef", "g"], &["", "abcdef", "", "g"]] {
            let refused = UPLOAD.read(&HeaderMap::new(), chunks(sent)).await;
            assert_eq!(refused.unwrap_err(), Problem::BodyTooLarge, "{sent:?}");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_a_bad_request() {
        let broken = Body::from_stream(stream::iter([Ok(Bytes::from("a")), Err("reset")]));
        assert_eq!(UPLOAD.read(&HeaderMap::new(), broken).await.unwrap_err(), Problem::BadRequest);
    }

    #[tokio::test]
    async fn a_body_over_a_limit_further_out_is_too_large_too() {
        // A body as the `RequestBodyLimitLayer` of tower-http passes it on.
        let limited = Body::new(Limited::new(chunks(&["ab", "cd"]), 3));
        assert_eq!(UPLOAD.read(&HeaderMap::new(), limited).await.unwrap_err(), Problem::BodyTooLarge);
    }

    #[tokio::test]
    async fn trailers_are_kept() {
        let trailers = HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from_static("1"))]);
        let frames = [Ok::<_, Infallible>(Frame::data(Bytes::from("a"))), Ok(Frame::trailers(trailers.clone()))];
        let read = UPLOAD.read(&HeaderMap::new(), Body::new(StreamBody::new(stream::iter(frames)))).await.unwrap();
        assert_eq!(Body::from(read).collect().await.unwrap().trailers(), Some(&trailers));
    }
}
