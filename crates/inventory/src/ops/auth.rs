use axum::{
    extract::{Request, State},
    http::header::AUTHORIZATION,
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

use crate::{
    config::Secret,
    http::{Problem, ProblemType},
};

/// Lets a request with the bearer token pass. Any other gets 401, before its route or method is looked at.
pub(super) async fn require(State(token): State<Secret>, request: Request, next: Next) -> Response {
    let mut values = request.headers().get_all(AUTHORIZATION).iter();
    let given = match (values.next(), values.next()) {
        (Some(value), None) => bearer(value.as_bytes()),
        _ => None,
    };
    if given.is_some_and(|given| equal(given, token.expose().as_bytes())) {
        next.run(request).await
    } else {
        Problem::from(ProblemType::Unauthorized).into_response()
    }
}

/// The credentials of `Bearer …`; the scheme is case-insensitive.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Compares digests, byte by byte to the end: how long it takes says nothing about where, or by how much, the texts
/// differ.
fn equal(given: &[u8], expected: &[u8]) -> bool {
    let (given, expected) = (Sha256::digest(given), Sha256::digest(expected));
    given.iter().zip(expected).fold(0, |differing, (given, expected)| differing | (given ^ expected)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_passes() {
        assert!(equal(b"correct horse", b"correct horse"));
        for given in [&b"correct hors"[..], b"correct horsE", b"", b"correct horse "] {
            assert!(!equal(given, b"correct horse"));
        }
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        assert_eq!(bearer(b"bEARER  x"), Some(&b"x"[..]));
        assert_eq!(bearer(b"Basic eDp5"), None);
        assert_eq!(bearer(b"Bearer"), None);
    }
}
