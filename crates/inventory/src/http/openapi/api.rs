use std::{
    future::ready,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    routing::MethodRouter,
};
use bytes::Bytes;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Components, HttpMethod, InfoBuilder, LicenseBuilder, ObjectBuilder, OpenApi, OpenApiBuilder, PathsBuilder,
        RefOr, Schema, Type, path::PathItemBuilder,
    },
};

use super::{
    Endpoint, Operation, get,
    header::{self, Header},
    operation::Schemas,
    problems,
};
use crate::{app::App, http::ProblemType, metrics};

/// The path of the document.
const PATH: &str = "/openapi.json";

const ABOUT: &str = "Stock of goods, with every change in a ledger.

Every error is `application/problem+json` with one of the types in the schema `Problem`. `HEAD` is answered like \
`GET`, but without a body. Another path is 404 `not-found`, and another method of a path is 405 `method-not-allowed`. \
A path or query with a `%` that encodes nothing is 400. A request head of more than 32 KiB is 431 without a document.";

/// The routes of the public port: a router and its OpenAPI document, of one list.
pub(in crate::http) struct Api {
    router: Router<App>,
    paths: PathsBuilder,
    schemas: Schemas,
}

impl Api {
    pub(in crate::http) fn new() -> Self {
        Self { router: Router::new(), paths: PathsBuilder::new(), schemas: Schemas::new() }
    }

    /// A path and its methods.
    pub(in crate::http) fn route(self, path: &'static str, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        self.add(path, endpoints, |methods| methods)
    }

    /// A path whose methods run under a route lock, which `lock` puts around them.
    pub(in crate::http) fn locked(
        self,
        path: &'static str,
        endpoints: impl IntoIterator<Item = Endpoint>,
        lock: impl FnOnce(MethodRouter<App>) -> MethodRouter<App>,
    ) -> Self {
        let endpoints = endpoints.into_iter().map(|mut endpoint| {
            endpoint.operation.problems(refusals_of_lock(&endpoint.method));
            endpoint
        });
        self.add(path, endpoints, lock)
    }

    fn add(
        mut self,
        path: &'static str,
        endpoints: impl IntoIterator<Item = Endpoint>,
        lock: impl FnOnce(MethodRouter<App>) -> MethodRouter<App>,
    ) -> Self {
        let mut methods = MethodRouter::new();
        let mut item = PathItemBuilder::new();
        for Endpoint { method, handler, mut operation } in endpoints {
            methods = methods.merge(handler);
            of_every_request(&method, &mut operation);
            metrics::announce_route(name(&method), path, operation.successes().map(|status| status.as_u16()));
            self.schemas.append(&mut operation.schemas);
            let id = id(&method, path);
            item = item.operation(method, operation.build(id));
        }
        self.paths = self.paths.path(path, item.build());
        self.router = self.router.route(path, lock(methods));
        self
    }

    /// The router, which also serves the document.
    pub(in crate::http) fn finish(self) -> Router<App> {
        let text = Arc::new(OnceLock::new());
        let served = Arc::clone(&text);
        let show = move || ready(([(CONTENT_TYPE, "application/json")], served.get().cloned().unwrap_or_default()));
        let own = get(show, "This document").json::<Document>(StatusCode::OK, "An OpenAPI 3.1 document", &[]);
        let Self { router, paths, schemas } = self.route(PATH, [own]);
        let document = document(paths, schemas);
        text.get_or_init(|| Bytes::from(serde_json::to_vec(&document).expect("texts and numbers serialize")));
        router
    }
}

fn document(paths: PathsBuilder, schemas: Schemas) -> OpenApi {
    let info =
        InfoBuilder::new().title("Inventory").version(env!("CARGO_PKG_VERSION")).description(Some(ABOUT)).license(
            Some(LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build()),
        );
    let mut components = Components::default();
    components.headers = Header::components();
    components.examples = problems::examples();
    components.schemas = schemas.into_iter().collect();
    components.schemas.insert(problems::SCHEMA.to_owned(), problems::schema().into());
    OpenApiBuilder::new().info(info.build()).paths(paths.build()).components(Some(components)).build()
}

/// How a route lock refuses a request. A read waits only a moment for its lock, and then goes on without it.
fn refusals_of_lock(method: &HttpMethod) -> Vec<ProblemType> {
    let mut refusals = vec![
        ProblemType::BadRequest,
        ProblemType::BodyTimeout,
        ProblemType::BodyTooLarge,
        ProblemType::NestedLock,
        ProblemType::LeaseLost,
        ProblemType::ShuttingDown,
    ];
    if *method != HttpMethod::Get {
        refusals.extend([
            ProblemType::LockTimeout,
            ProblemType::QueueFull,
            ProblemType::LockStoreUnavailable,
            ProblemType::OutcomeUnknown,
        ]);
    }
    refusals
}

/// The headers and answers of the layers around every handler.
fn of_every_request(method: &HttpMethod, operation: &mut Operation) {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    operation.parameter(header::parameter(
        "x-request-id",
        text(),
        "order-17",
        "The id of this request, 1 to 128 visible ASCII characters. Anything else is replaced by a random id.",
    ));
    operation.parameter(header::parameter(
        "traceparent",
        text(),
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "The trace that this request belongs to (W3C Trace Context). A malformed one is ignored.",
    ));
    let time_is_up = if *method == HttpMethod::Get { ProblemType::LoadShed } else { ProblemType::OutcomeUnknown };
    operation.problems([ProblemType::BadRequest, ProblemType::Internal, time_is_up]);
}

fn name(method: &HttpMethod) -> &'static str {
    match method {
        HttpMethod::Put => "PUT",
        HttpMethod::Post => "POST",
        HttpMethod::Delete => "DELETE",
        _ => "GET",
    }
}

/// The name of an operation for programs: its method and the words of its path.
fn id(method: &HttpMethod, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(name(method).to_ascii_lowercase(), |id, word| id + "_" + word)
}

/// Any JSON object.
struct Document;

impl PartialSchema for Document {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().description(Some("An OpenAPI document.")).into()
    }
}

impl ToSchema for Document {}
