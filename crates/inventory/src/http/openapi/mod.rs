//! `/openapi.json`: the OpenAPI document of the public port, made of the same list as its router.
//!
//! [`Api`] takes every route once. A handler's extractors say what a request may carry and how it may be refused
//! ([`Takes`]), its route adds what it answers ([`Endpoint`]). A route without a row can therefore not be written, nor
//! a handler with an extractor that the document does not know.

mod api;
mod endpoint;
mod header;
mod operation;
mod problems;
mod takes;

pub(super) use api::Api;
pub(super) use endpoint::{Endpoint, delete, get, post, put};
pub(super) use header::{Header, parameter as header_parameter};
pub(super) use operation::Operation;
pub(super) use takes::Takes;
