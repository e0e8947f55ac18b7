use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use utoipa::{
    ToSchema,
    openapi::{
        ContentBuilder, Ref, RefOr, Required, ResponseBuilder, Schema,
        path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
        request_body::{RequestBody, RequestBodyBuilder},
    },
};

use super::{header::Header, problems};
use crate::http::ProblemType;

/// Schemas by name.
pub(super) type Schemas = Vec<(String, RefOr<Schema>)>;

/// The parameters, body and answers of one method of one path.
#[derive(Default)]
pub(in crate::http) struct Operation {
    summary: &'static str,
    pub(super) schemas: Schemas,
    parameters: Vec<Parameter>,
    body: Option<RequestBody>,
    successes: Vec<Success>,
    /// The headers of every success.
    headers: BTreeSet<Header>,
    problems: BTreeSet<ProblemType>,
    /// The headers of every problem that arises behind the layer that sets them.
    problem_headers: BTreeSet<Header>,
}

struct Success {
    status: StatusCode,
    description: &'static str,
    schema: Option<Ref>,
    headers: BTreeSet<Header>,
}

impl Operation {
    pub(super) fn new(summary: &'static str) -> Self {
        Self { summary, ..Self::default() }
    }

    /// A parameter of the path, the query or the head.
    pub(in crate::http) fn parameter(&mut self, parameter: Parameter) {
        self.parameters.push(parameter);
    }

    /// A parameter of the path.
    pub(in crate::http) fn path(
        &mut self,
        name: &str,
        schema: impl Into<RefOr<Schema>>,
        example: &str,
        description: &str,
    ) {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(schema))
            .example(Some(example.into()));
        self.parameter(parameter.build());
    }

    /// A JSON body.
    pub(in crate::http) fn body<T: ToSchema>(&mut self) {
        let content = ContentBuilder::new().schema(Some(self.schema::<T>())).build();
        let body = RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True));
        self.body = Some(body.build());
    }

    /// A header of every success.
    pub(in crate::http) fn header(&mut self, header: Header) {
        self.headers.insert(header);
    }

    /// A header of problems.
    pub(in crate::http) fn problem_header(&mut self, header: Header) {
        self.problem_headers.insert(header);
    }

    /// Adds the problems that may refuse the request.
    pub(in crate::http) fn problems(&mut self, problems: impl IntoIterator<Item = ProblemType>) {
        self.problems.extend(problems);
    }

    /// An answer without a body.
    pub(super) fn empty(&mut self, status: StatusCode, description: &'static str, headers: &[Header]) {
        let headers = headers.iter().copied().collect();
        self.successes.push(Success { status, description, schema: None, headers });
    }

    /// An answer in JSON.
    pub(super) fn json<T: ToSchema>(&mut self, status: StatusCode, description: &'static str, headers: &[Header]) {
        let (schema, headers) = (Some(self.schema::<T>()), headers.iter().copied().collect());
        self.successes.push(Success { status, description, schema, headers });
    }

    /// The statuses of the successes.
    pub(super) fn successes(&self) -> impl Iterator<Item = StatusCode> + '_ {
        self.successes.iter().map(|success| success.status).filter(StatusCode::is_success)
    }

    /// Adds a type to the schemas of the document, and returns the reference to it.
    pub(in crate::http) fn schema<T: ToSchema>(&mut self) -> Ref {
        let name = T::name();
        T::schemas(&mut self.schemas);
        self.schemas.push((name.clone().into_owned(), T::schema()));
        Ref::from_schema_name(name)
    }

    /// Its row in the document.
    pub(super) fn build(self, id: String) -> utoipa::openapi::path::Operation {
        let mut operation = OperationBuilder::new().summary(Some(self.summary)).operation_id(Some(id));
        for parameter in self.parameters {
            operation = operation.parameter(parameter);
        }
        operation = operation.request_body(self.body);
        for success in self.successes {
            let mut response = ResponseBuilder::new()
                .description(success.description)
                .header_ref("x-request-id", Header::RequestId.reference());
            // A 304 repeats what caches need, and nothing else of the answer.
            let common = self.headers.iter().filter(|_| success.status.is_success());
            for header in success.headers.iter().chain(common) {
                response = response.header_ref(header.name(), header.reference());
            }
            if let Some(schema) = success.schema {
                response = response.content("application/json", ContentBuilder::new().schema(Some(schema)).build());
            }
            operation = operation.response(success.status.as_str(), response.build());
        }
        for (status, types) in by_status(&self.problems) {
            operation = operation.response(status.as_str(), problems::response(&types, &self.problem_headers));
        }
        operation.build()
    }
}

fn by_status(problems: &BTreeSet<ProblemType>) -> BTreeMap<StatusCode, Vec<ProblemType>> {
    let mut all: BTreeMap<StatusCode, Vec<ProblemType>> = BTreeMap::new();
    for problem in problems {
        all.entry(problem.status()).or_default().push(*problem);
    }
    all
}
