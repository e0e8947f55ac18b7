use axum::{
    extract::FromRequestParts,
    http::{
        HeaderMap,
        header::{IF_MATCH, IF_NONE_MATCH},
        request::Parts,
    },
};
use stockade::extract::EntityTag;
use utoipa::openapi::{ObjectBuilder, Type};

use super::{
    Problem, ProblemType,
    openapi::{Operation, Takes, header_parameter},
};

/// `If-Match` and `If-None-Match: *` of a write (RFC 9110, sections 13.1.1 and 13.1.2).
pub(crate) struct Precondition {
    /// The lines of `If-Match`, and no others.
    if_match: HeaderMap,
    /// The write is only for a resource that is not there.
    creates: bool,
}

impl Precondition {
    /// Compares with the tag of the present resource, if there is one.
    pub(crate) fn check(&self, current: Option<EntityTag>) -> Result<(), Problem> {
        let held = current.map_or(self.if_match.is_empty(), |tag| tag.meets_if_match(&self.if_match));
        if !held {
            return Err(Problem::precondition_failed("If-Match names another state than the present one"));
        }
        if self.creates && current.is_some() {
            return Err(Problem::precondition_failed("If-None-Match names what is there"));
        }
        Ok(())
    }
}

impl<S: Sync> FromRequestParts<S> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let headers = &parts.headers;
        if headers.get_all(IF_NONE_MATCH).iter().any(|line| line.as_bytes().trim_ascii() != b"*") {
            return Err(Problem::bad_request("the If-None-Match of a write takes `*` only"));
        }
        let if_match = headers.get_all(IF_MATCH).iter().map(|line| (IF_MATCH, line.clone())).collect();
        Ok(Self { if_match, creates: headers.contains_key(IF_NONE_MATCH) })
    }
}

impl Takes for Precondition {
    fn takes(operation: &mut Operation) {
        let tags = || ObjectBuilder::new().schema_type(Type::String);
        operation.parameter(header_parameter(
            "If-Match",
            tags(),
            "\"7-5d41402abc4b2a76\"",
            "Entity tags of the states to which the write may be applied, or `*`: any.",
        ));
        operation.parameter(header_parameter("If-None-Match", tags(), "*", "`*`: only where there is no stock."));
        operation.problems([ProblemType::BadRequest, ProblemType::PreconditionFailed]);
    }
}
