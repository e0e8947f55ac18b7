//! The public port: its routes, their requests and their answers.

mod adjusting;
mod adjustments;
mod error;
mod flash;
pub(crate) mod health;
mod idempotency;
mod json;
mod lab;
mod ledger;
mod measure;
mod memory;
pub(crate) mod movements;
mod openapi;
pub(crate) mod page;
pub(crate) mod path;
mod precondition;
mod problem;
mod problem_type;
mod request_id;
mod reservations;
pub(crate) mod router;
mod stock;
pub(crate) mod trace;
mod transfers;

pub use json::JsonBody;
pub use problem::Problem;
pub use problem_type::ProblemType;
pub use request_id::RequestId;
pub use router::{app, around};
