//! `/lab`: the schemes of the lab, while `LAB` is on.

use std::error::Error;

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use stockade::extract::CachePolicy;
use utoipa::{
    ToSchema,
    openapi::{ObjectBuilder, Type},
};

use super::{
    JsonBody, Problem, ProblemType,
    openapi::{self, Endpoint, Header, Operation, Takes},
    path,
};
use crate::{
    app::App,
    console::chain,
    domain::Units,
    lab::{Count, Lab, LabError, Sale, SaleError, Scheme},
};

const OFF: Problem = Problem::not_found("the lab is off");
const NO_RUN: Problem = Problem::not_found("the scheme has no units: `POST /lab/{scheme}` with `units` gives it some");
const UNDEFINED_TABLE: &str = "42P01";
const INVALID_SCHEMA_NAME: &str = "3F000";

/// The units that a run begins with.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = LabUnits)]
#[serde(deny_unknown_fields, expecting = "an object with the field `units`")]
pub(super) struct Begin {
    units: Units,
}

/// The sales of a scheme since its units were set.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LabRun)]
pub(super) struct Shown {
    scheme: String,
    /// Units at the start.
    units: i64,
    /// Sales that were answered 201: the rows of the ledger of the scheme.
    sold: i64,
    /// Units left.
    left: i64,
    /// Sales that left no trace in the stock. Below zero: units that left it without an answer 201.
    lost: i64,
    /// Sales beyond the units at the start.
    oversold: i64,
}

/// A scheme.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LabScheme)]
pub(super) struct Line {
    scheme: String,
    title: &'static str,
}

/// The schemes that the service sells by.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LabSchemes)]
pub(super) struct List {
    schemes: Vec<Line>,
}

/// A unit was sold.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LabSale)]
pub(super) struct Sold {
    scheme: String,
}

/// The row of [`list`].
pub(super) fn list_endpoint() -> Endpoint {
    openapi::get(list, "The schemes of the lab").json::<List>(
        StatusCode::OK,
        "In the order in which a student meets them",
        &[Header::CacheControl],
    )
}

/// The rows of one scheme.
pub(super) fn endpoints() -> [Endpoint; 2] {
    let problems = || {
        [
            ProblemType::NotFound,
            ProblemType::UnknownScheme,
            ProblemType::DatabaseUnavailable,
            ProblemType::LockStoreUnavailable,
            ProblemType::OutcomeUnknown,
            ProblemType::FenceBusy,
        ]
    };
    [
        openapi::get(show, "What a scheme of the lab sold")
            .json::<Shown>(StatusCode::OK, "The run since its units were set", &[Header::CacheControl])
            .problems(problems()),
        openapi::post(begin, "Set the units of a scheme of the lab and forget what it sold")
            .json::<Shown>(StatusCode::OK, "The new run", &[Header::CacheControl])
            .problems(problems())
            .problems([ProblemType::LockTimeout]),
    ]
}

/// The row of [`sell`].
pub(super) fn sale_endpoint() -> Endpoint {
    openapi::post(sell, "Sell one unit by a scheme of the lab")
        .json::<Sold>(StatusCode::CREATED, "Sold", &[Header::CacheControl])
        .problems([ProblemType::NotFound, ProblemType::UnknownScheme, ProblemType::SoldOut])
        .problems([ProblemType::LockTimeout, ProblemType::QueueFull, ProblemType::LoadShed])
        .problems([ProblemType::LockStoreUnavailable, ProblemType::LeaseLost, ProblemType::ShuttingDown])
        .problems([ProblemType::FenceStale, ProblemType::FenceBusy, ProblemType::OutcomeUnknown])
        .problems([ProblemType::DatabaseUnavailable])
}

/// `GET /lab`
pub(super) async fn list() -> Response {
    let schemes = Scheme::served().map(|scheme| Line { scheme: scheme.name(), title: scheme.title() }).collect();
    (CachePolicy::no_store(), Json(List { schemes })).into_response()
}

/// `GET /lab/{scheme}`
pub(super) async fn show(State(app): State<App>, scheme: Scheme) -> Result<Response, Problem> {
    let count = lab(&app)?.count(scheme).await?;
    Ok((CachePolicy::no_store(), Json(Shown::new(scheme, count))).into_response())
}

/// `POST /lab/{scheme}`
pub(super) async fn begin(State(app): State<App>, scheme: Scheme, body: JsonBody<Begin>) -> Result<Response, Problem> {
    let lab = lab(&app)?;
    lab.set(scheme, body.value.units.get()).await.map_err(|error| match error {
        LabError::Sql(error @ sqlx::Error::Io(_)) => unknown(&error),
        error => error.into(),
    })?;
    // The run has begun by now, and to begin it again would delete what it sold.
    let count = lab.count(scheme).await.map_err(|error| unknown(&error))?;
    Ok((CachePolicy::no_store(), Json(Shown::new(scheme, count))).into_response())
}

/// `POST /lab/{scheme}/sales`
pub(super) async fn sell(State(app): State<App>, scheme: Scheme) -> Result<Response, Problem> {
    match lab(&app)?.sell(scheme).await? {
        Sale::Sold => {
            Ok((StatusCode::CREATED, CachePolicy::no_store(), Json(Sold { scheme: scheme.name() })).into_response())
        }
        Sale::SoldOut => Err(ProblemType::SoldOut.into()),
    }
}

fn lab(app: &App) -> Result<&Lab, Problem> {
    app.lab.as_ref().ok_or(OFF)
}

impl Shown {
    fn new(scheme: Scheme, count: Count) -> Self {
        let Count { units, sold, left, lost, oversold } = count;
        Self { scheme: scheme.name(), units, sold, left, lost, oversold }
    }
}

/// The path parameter `scheme`.
impl<S: Send + Sync> FromRequestParts<S> for Scheme {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = path::parameter("scheme", parts, state).await?;
        Self::from_str(&name, false).map_err(|_| {
            let known: Vec<_> = Self::served().map(Self::name).collect();
            Problem::unknown_scheme(format!("there are: {}", known.join(", ")))
        })
    }
}

impl Takes for Scheme {
    fn takes(operation: &mut Operation) {
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(Self::served().map(Self::name)));
        operation.path("scheme", schema, "stockade", "The scheme that sells.");
        operation.problems([ProblemType::BadRequest, ProblemType::UnknownScheme]);
    }
}

impl From<LabError> for Problem {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Elsewhere(scheme) => Self::unknown_scheme(scheme.elsewhere().unwrap_or_default()),
            LabError::Full => ProblemType::LoadShed.into(),
            LabError::Selling | LabError::Sale(SaleError::Busy(_)) => ProblemType::LockTimeout.into(),
            LabError::Sale(SaleError::Sql(error @ sqlx::Error::Io(_))) => unknown(&error),
            LabError::Sql(error) | LabError::Sale(SaleError::Sql(error)) => of_statement(error),
            LabError::Sale(SaleError::Lock(error)) => error.into(),
            LabError::Sale(SaleError::Fence(error)) => error.into(),
            LabError::Sale(SaleError::Commit(error)) => error.into(),
            LabError::Redis(_) => {
                tracing::warn!(error = %chain(&error), "the lab did not reach Redis");
                ProblemType::LockStoreUnavailable.into()
            }
            LabError::Unfinished | LabError::Unknown(_) | LabError::Sale(SaleError::Redis(_) | SaleError::Other(_)) => {
                unknown(&error)
            }
        }
    }
}

fn of_statement(error: sqlx::Error) -> Problem {
    match &error {
        sqlx::Error::Database(refused)
            if matches!(refused.code().as_deref(), Some(UNDEFINED_TABLE | INVALID_SCHEMA_NAME)) =>
        {
            NO_RUN
        }
        _ => error.into(),
    }
}

/// Some schemes write without a transaction: without an answer the outcome is unknown.
fn unknown(error: &(dyn Error + 'static)) -> Problem {
    tracing::warn!(error = %chain(error), "a sale of the lab has no known outcome");
    ProblemType::OutcomeUnknown.into()
}
