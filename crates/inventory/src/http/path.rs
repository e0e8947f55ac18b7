use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{Uri, request::Parts},
};

use super::{
    Problem, ProblemType,
    openapi::{Operation, Takes},
};
use crate::domain::Sku;

/// A parameter of the path, percent-decoded once.
pub(crate) async fn parameter<S: Send + Sync>(name: &str, parts: &mut Parts, state: &S) -> Result<String, Problem> {
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
    let found = params.iter().find_map(|(known, text)| (known == name).then(|| text.to_owned()));
    found.ok_or_else(|| {
        tracing::error!("the route has no parameter `{name}`");
        ProblemType::Internal.into()
    })
}

/// The path parameter `sku`.
impl<S: Send + Sync> FromRequestParts<S> for Sku {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = parameter("sku", parts, state).await?;
        Self::new(&text).map_err(|error| Problem::bad_request(error.to_string()))
    }
}

impl Takes for Sku {
    fn takes(operation: &mut Operation) {
        let schema = operation.schema::<Self>();
        operation.path("sku", schema, "85123A", "The SKU, percent-encoded.");
        operation.problems([ProblemType::BadRequest]);
    }
}

/// Refuses a request whose path or query is not percent-encoded by the rules (RFC 3986, section 2.1). Decoders leave
/// the `%` of `%zz` as it is, so two spellings would lead to one resource.
pub(crate) fn well_formed(uri: &Uri) -> Result<(), Problem> {
    if is_well_formed(uri.path()) && uri.query().is_none_or(is_well_formed) {
        return Ok(());
    }
    Err(Problem::bad_request("every `%` in the path and the query needs two hexadecimal digits behind it"))
}

fn is_well_formed(text: &str) -> bool {
    let mut after_percent = text.as_bytes().split(|byte| *byte == b'%').skip(1);
    after_percent.all(|rest| matches!(rest, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::is_well_formed;

    #[test]
    fn a_percent_sign_needs_two_hexadecimal_digits() {
        for text in ["", "/stock/A", "/stock/%25", "/%2f%2F", "/%25zz", "/%e2%80%AE"] {
            assert!(is_well_formed(text), "{text}");
        }
        for text in ["%", "/%2", "/%zz", "/%2z", "/%z2", "/%%25", "/%25%", "/a%+1", "/%2%35"] {
            assert!(!is_well_formed(text), "{text}");
        }
    }
}
