use std::{fmt, io::Write};

use axum::http::HeaderValue;

/// The longest text that [`header`] writes, in bytes.
const LONGEST: usize = 64;

/// The header value with this text, which is made of visible ASCII. It costs one allocation, that of the value; a
/// `String` on the way would cost another, and a third where its capacity is more than its length.
pub(super) fn header(text: impl fmt::Display) -> Option<HeaderValue> {
    let mut buffer = [0; LONGEST];
    let mut rest = buffer.as_mut_slice();
    write!(rest, "{text}").ok()?;
    let written = LONGEST - rest.len();
    HeaderValue::from_bytes(buffer.get(..written)?).ok()
}
