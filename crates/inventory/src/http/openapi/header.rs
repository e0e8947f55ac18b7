use std::collections::BTreeMap;

use clap::ValueEnum;
use serde_json::json;
use utoipa::openapi::{
    Header as Row, HeaderBuilder, ObjectBuilder, Ref, RefOr, Type,
    path::{Parameter, ParameterBuilder, ParameterIn},
};

/// A header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(in crate::http) enum Header {
    Age,
    CacheControl,
    CacheStatus,
    ContentLocation,
    ETag,
    FencingToken,
    IdempotentReplayed,
    Location,
    RequestId,
    RetryAfter,
}

impl Header {
    pub(super) fn name(self) -> &'static str {
        self.row().0
    }

    /// Its entry among the components of the document.
    pub(super) fn reference(self) -> Ref {
        Ref::new(format!("#/components/headers/{}", self.name()))
    }

    pub(super) fn components() -> BTreeMap<String, RefOr<Row>> {
        Self::value_variants().iter().map(|header| (header.name().to_owned(), header.component().into())).collect()
    }

    fn component(self) -> Row {
        let (_, kind, example, description) = self.row();
        let value = if kind == Type::Integer { json!(example.parse::<u64>().ok()) } else { json!(example) };
        let mut schema = ObjectBuilder::new().schema_type(kind.clone());
        if kind == Type::Integer {
            schema = schema.minimum(Some(0));
        }
        HeaderBuilder::new().schema(Some(schema)).description(Some(description)).example(Some(value)).build()
    }

    /// Name, type, example and meaning.
    fn row(self) -> (&'static str, Type, &'static str, &'static str) {
        match self {
            Self::Age => ("Age", Type::Integer, "12", "The age of the answer, in seconds."),
            Self::CacheControl => (
                "Cache-Control",
                Type::String,
                "no-cache",
                "`no-cache`: caches may keep the answer, and ask each time whether it still holds. `no-store`: none \
                 may keep it.",
            ),
            Self::CacheStatus => (
                "Cache-Status",
                Type::String,
                "stockade; hit; ttl=287; detail=redis",
                "Where the answer comes from (RFC 9211). `detail=unlocked` and `detail=degraded` mark a read that \
                 went on without its lock.",
            ),
            Self::ContentLocation => {
                ("Content-Location", Type::String, "/stock/85123A", "The path at which a read answers with this body.")
            }
            Self::ETag => (
                "ETag",
                Type::String,
                "\"7-5d41402abc4b2a76\"",
                "The state of the stock, for `If-Match` and `If-None-Match`. Opaque. A read without its lock has none.",
            ),
            Self::FencingToken => (
                "Fencing-Token",
                Type::String,
                "1763841600000000",
                "The token of the lock that the write was made under. It rises with each write of a SKU. A transfer \
                 has two.",
            ),
            Self::IdempotentReplayed => (
                "Idempotent-Replayed",
                Type::String,
                "true",
                "`true`: this is the stored answer to an earlier request with this `Idempotency-Key`.",
            ),
            Self::Location => ("Location", Type::String, "/stock/85123A", "The path of what was created."),
            Self::RequestId => ("x-request-id", Type::String, "order-17", "The id of the request, also in the log."),
            Self::RetryAfter => (
                "Retry-After",
                Type::Integer,
                "1",
                "After how many seconds another attempt makes sense. `retry_after_ms` of the body is more exact.",
            ),
        }
    }
}

/// A header of a request.
pub(in crate::http) fn parameter(name: &str, schema: ObjectBuilder, example: &str, description: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .description(Some(description))
        .schema(Some(schema))
        .example(Some(json!(example)))
        .build()
}
