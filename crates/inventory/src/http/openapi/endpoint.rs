use axum::{
    handler::Handler,
    http::StatusCode,
    routing::{self, MethodRouter},
};
use utoipa::{ToSchema, openapi::HttpMethod};

use super::{Header, Operation, Takes};
use crate::{app::App, http::ProblemType};

/// One method of a path: its handler, and its row in the document.
pub(in crate::http) struct Endpoint {
    pub(super) method: HttpMethod,
    pub(super) handler: MethodRouter<App>,
    pub(super) operation: Operation,
}

/// `GET`, and `HEAD` with it.
pub(in crate::http) fn get<H: Documented<T>, T: 'static>(handler: H, summary: &'static str) -> Endpoint {
    Endpoint::new::<H, T>(HttpMethod::Get, routing::get(handler), summary)
}

/// `PUT`
pub(in crate::http) fn put<H: Documented<T>, T: 'static>(handler: H, summary: &'static str) -> Endpoint {
    Endpoint::new::<H, T>(HttpMethod::Put, routing::put(handler), summary)
}

/// `POST`
pub(in crate::http) fn post<H: Documented<T>, T: 'static>(handler: H, summary: &'static str) -> Endpoint {
    Endpoint::new::<H, T>(HttpMethod::Post, routing::post(handler), summary)
}

/// `DELETE`
pub(in crate::http) fn delete<H: Documented<T>, T: 'static>(handler: H, summary: &'static str) -> Endpoint {
    Endpoint::new::<H, T>(HttpMethod::Delete, routing::delete(handler), summary)
}

impl Endpoint {
    fn new<H: Documented<T>, T>(method: HttpMethod, handler: MethodRouter<App>, summary: &'static str) -> Self {
        let mut operation = Operation::new(summary);
        H::document(&mut operation);
        Self { method, handler, operation }
    }

    /// Answers in JSON.
    pub(in crate::http) fn json<T: ToSchema>(
        mut self,
        status: StatusCode,
        description: &'static str,
        headers: &[Header],
    ) -> Self {
        self.operation.json::<T>(status, description, headers);
        self
    }

    /// Answers without a body.
    pub(in crate::http) fn empty(mut self, status: StatusCode, description: &'static str, headers: &[Header]) -> Self {
        self.operation.empty(status, description, headers);
        self
    }

    /// The handler's own refusals. Its extractors have others.
    pub(in crate::http) fn problems(mut self, problems: impl IntoIterator<Item = ProblemType>) -> Self {
        self.operation.problems(problems);
        self
    }
}

/// A handler whose extractors are all in the document. `T` are the types of its arguments, as in [`Handler`].
pub(in crate::http) trait Documented<T>: Handler<T, App> {
    fn document(operation: &mut Operation);
}

macro_rules! documented {
    ($($argument:ident),*) => {
        impl<F, Answer, M, $($argument: Takes),*> Documented<(M, $($argument,)*)> for F
        where
            F: FnOnce($($argument),*) -> Answer + Handler<(M, $($argument,)*), App>,
        {
            fn document(_operation: &mut Operation) {
                $($argument::takes(_operation);)*
            }
        }
    };
}

documented!();
documented!(A);
documented!(A, B);
documented!(A, B, C);
documented!(A, B, C, D);
documented!(A, B, C, D, E);
documented!(A, B, C, D, E, G);
documented!(A, B, C, D, E, G, H);
