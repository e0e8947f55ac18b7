use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use utoipa::openapi::{
    ContentBuilder, Object, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Type,
    example::{Example, ExampleBuilder},
    schema::SchemaType,
};

use super::header::Header;
use crate::http::{Problem, ProblemType};

/// The name of the schema of all problems.
pub(super) const SCHEMA: &str = "Problem";

/// The answer of one status, which problems of these types have.
pub(super) fn response(types: &[ProblemType], headers: &BTreeSet<Header>) -> Response {
    let titles: Vec<String> = types.iter().map(|one| format!("`{}`: {}.", one.name(), one.title())).collect();
    let examples = types.iter().map(|one| {
        let reference: RefOr<Example> = RefOr::Ref(Ref::new(format!("#/components/examples/{}", one.name())));
        (one.name(), reference)
    });
    let content =
        ContentBuilder::new().schema(Some(Ref::from_schema_name(SCHEMA))).examples_from_iter(examples).build();
    let mut response = ResponseBuilder::new().description(titles.join("\n\n")).content(Problem::MEDIA_TYPE, content);
    let retry = types.iter().any(|one| document(*one).get("retry_after_ms").is_some());
    let common = [Header::RequestId, Header::CacheControl].into_iter().chain(retry.then_some(Header::RetryAfter));
    for header in common.chain(headers.iter().copied()) {
        response = response.header_ref(header.name(), header.reference());
    }
    response.build()
}

/// An example of every type.
pub(super) fn examples() -> BTreeMap<String, RefOr<Example>> {
    let example = |one: &ProblemType| {
        let example = ExampleBuilder::new().summary(one.title()).value(Some(document(*one)));
        (one.name().to_owned(), example.build().into())
    };
    ProblemType::ALL.iter().map(example).collect()
}

/// The document of a problem (RFC 9457).
pub(super) fn schema() -> Object {
    let names = ProblemType::ALL.iter().map(|one| format!("/problems/{}", one.name()));
    let text = |description: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    let number = |description: &str| {
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).description(Some(description))
    };
    let applied = ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Boolean, Type::Null])).description(
        Some("`false`: nothing was applied. `null`: the service cannot know. `true`: it was applied all the same."),
    );
    ObjectBuilder::new()
        .description(Some("Every error, as `application/problem+json` (RFC 9457)."))
        .property("type", text("The type of the problem.").enum_values(Some(names)))
        .property("title", text("The type in words."))
        .property("status", number("The status of the answer."))
        .property("detail", text("What is wrong with this request, or what to do."))
        .property("available", number("How many are on hand, with `insufficient-stock`."))
        .property("applied", applied)
        .property("retry_after_ms", number("After how many milliseconds another attempt makes sense."))
        .property("request_id", text("The id of the request, also in `x-request-id`."))
        .required("type")
        .required("title")
        .required("status")
        .required("applied")
        .required("request_id")
        .build()
}

fn document(problem_type: ProblemType) -> Value {
    let mut document: Value = serde_json::from_str(&example(problem_type).document(None)).unwrap_or_default();
    document["request_id"] = "order-17".into();
    document
}

/// A problem of this type, as the service answers it.
fn example(problem_type: ProblemType) -> Problem {
    match problem_type {
        ProblemType::BadRequest => Problem::bad_request("the body is not JSON"),
        ProblemType::NotFound => Problem::not_found("there is no stock of this SKU"),
        ProblemType::UnknownScheme => Problem::unknown_scheme("there are: no-lock, stockade"),
        ProblemType::InsufficientStock => Problem::insufficient_stock(3),
        ProblemType::PreconditionFailed => Problem::precondition_failed("If-None-Match names what is there"),
        ProblemType::Unprocessable => Problem::unprocessable("0 is not an integer from 1 to 1000000000"),
        ProblemType::LockTimeout
        | ProblemType::QueueFull
        | ProblemType::LockStoreUnavailable
        | ProblemType::LoadShed => Problem::with_retry_after(problem_type, Duration::from_millis(250)),
        _ => problem_type.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_a_type_is_a_problem_of_that_type() {
        for one in ProblemType::ALL {
            assert_eq!(example(*one).problem_type(), *one);
        }
    }

    #[test]
    fn the_schema_has_the_members_that_problems_have() {
        let schema = schema();
        for one in ProblemType::ALL {
            let document = document(*one);
            let members = document.as_object().unwrap();
            for name in members.keys() {
                assert!(schema.properties.contains_key(name), "{name} of {one:?}");
            }
            for name in &schema.required {
                assert!(members.contains_key(name), "{one:?} has no {name}");
            }
        }
    }
}
