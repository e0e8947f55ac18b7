use std::borrow::Cow;

use axum::{
    Json,
    extract::{FromRequestParts, Query},
    http::request::Parts,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use stockade::extract::CachePolicy;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, Ref, RefOr, Schema, Type,
        path::{Parameter, ParameterBuilder, ParameterIn},
        schema::SchemaType,
    },
};

use super::{
    Problem, ProblemType,
    openapi::{Operation, Takes},
};

/// A page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct Page<T> {
    items: Vec<T>,
    /// The cursor of the next page; null on the last.
    next: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page out of up to one row more than asked for, whose presence says that there is a next page.
    pub(crate) fn new(mut rows: Vec<T>, limit: Limit, cursor: impl Fn(&T) -> String) -> Self {
        let more = rows.len() > limit.0;
        rows.truncate(limit.0);
        let next = rows.last().filter(|_| more).map(cursor);
        Self { items: rows, next }
    }
}

/// No cache keeps a page: it has no validator by which a cache could ask whether it still holds.
impl<T: Serialize> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        (CachePolicy::no_store(), Json(self)).into_response()
    }
}

impl<T: ToSchema> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let next = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some("The `after` of the next page; null on the last."));
        ObjectBuilder::new()
            .property("items", ArrayBuilder::new().items(Ref::from_schema_name(T::name())))
            .property("next", next)
            .required("items")
            .required("next")
            .into()
    }
}

impl<T: ToSchema> ToSchema for Page<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Page", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
        schemas.push((T::name().into_owned(), T::schema()));
    }
}

/// How many items a page has: 1 to 200, default 50.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(pub(crate) usize);

impl Limit {
    const DEFAULT: Self = Self(50);
    const MAX: usize = 200;

    /// Digits only, no sign, no leading zero: one way to write a number.
    fn parse(text: &str) -> Option<Self> {
        let canonical = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        text.parse().ok().filter(|limit| canonical && (1..=Self::MAX).contains(limit)).map(Self)
    }

    /// The rows to ask for: one more than the page has.
    pub(crate) fn rows(self) -> i64 {
        i64::try_from(self.0 + 1).unwrap_or(i64::MAX)
    }
}

/// `?limit=&after=` of a list.
#[derive(Debug)]
pub(crate) struct PageQuery {
    pub(crate) limit: Limit,
    pub(crate) after: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    limit: Option<String>,
    after: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for PageQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(raw) = Query::<Raw>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::bad_request("the query takes `limit` and `after`, each once"))?;
        let limit = match raw.limit {
            None => Limit::DEFAULT,
            Some(text) => {
                Limit::parse(&text).ok_or_else(|| Problem::bad_request("`limit` must be a number from 1 to 200"))?
            }
        };
        Ok(Self { limit, after: raw.after })
    }
}

impl Takes for PageQuery {
    fn takes(operation: &mut Operation) {
        let limit = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(Limit::MAX))
            .default(Some(Limit::DEFAULT.0.into()));
        operation.parameter(in_query("limit", limit, "How many items a page has."));
        let after = ObjectBuilder::new().schema_type(Type::String);
        operation.parameter(in_query("after", after, "The `next` of the page before."));
        operation.problems([ProblemType::BadRequest]);
    }
}

fn in_query(name: &str, schema: ObjectBuilder, description: &str) -> Parameter {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
    parameter.description(Some(description)).schema(Some(schema)).build()
}

/// A cursor: where a list goes on, in a form that promises nothing. `list` tells the lists apart.
pub(crate) fn cursor(list: u8, position: &[u8]) -> String {
    std::iter::once(&list).chain(position).map(|byte| format!("{byte:02x}")).collect()
}

/// The position of a cursor of `list`.
pub(crate) fn position(list: u8, text: &str) -> Result<Vec<u8>, Problem> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = text.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>();
    let position = bytes.and_then(|bytes| bytes.strip_prefix(&[list]).map(<[u8]>::to_vec));
    // Only what `cursor` writes: `from_str_radix` takes signs, upper case and single digits, too.
    position.filter(|position| cursor(list, position) == text).ok_or_else(bad_cursor)
}

/// The answer to an `after` that no page of the list gave.
pub(crate) fn bad_cursor() -> Problem {
    Problem::bad_request("`after` must be the `next` of an earlier page of this list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_in_one_way() {
        for text in ["1", "50", "200"] {
            assert!(Limit::parse(text).is_some(), "{text}");
        }
        for text in ["", "0", "201", "-1", "+1", "01", "1.0", "1e2", "0x1", " 1", "9999999999999999999999", "\u{661}"] {
            assert!(Limit::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_cursor_belongs_to_its_list() {
        let text = cursor(b's', "caf\u{e9}".as_bytes());
        assert_eq!(position(b's', &text).unwrap(), "caf\u{e9}".as_bytes());
        for (list, text) in [
            (b'm', text.as_str()),
            (b's', ""),
            (b's', "7"),
            (b's', "zz"),
            (b's', "73\u{e9}"),
            (b's', "736A"),
            (b's', "73+a"),
        ] {
            assert!(position(list, text).is_err(), "{text}");
        }
    }
}
