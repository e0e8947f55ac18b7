//! `/admin/attacks`: the attack lab, while `LAB` is on.

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::StatusCode,
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::{
    app::App,
    attack::{Attack, AttackError, Attacks, Callers, Described, Moment, Report},
    console::chain,
    http::{Problem, ProblemType},
};

const OFF: Problem = Problem::not_found("the attack lab is off: LAB=on turns it on");
const NO_ATTACK: Problem = Problem::not_found("there is no attack of this name: see `GET /admin/attacks`");
const NO_RUN: Problem = Problem::not_found("the attack has not been run: `POST` begins it");

#[derive(Debug, Serialize)]
pub(super) struct List {
    attacks: Vec<Described>,
    /// The last run of each attack that has been run.
    runs: Vec<Report>,
}

#[derive(Debug, Serialize)]
pub(super) struct Run {
    #[serde(flatten)]
    report: Report,
    /// One every 100 ms, and one at the end.
    moments: Vec<Moment>,
}

/// How an attack is run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    #[serde(default)]
    callers: Callers,
}

/// `GET /admin/attacks`: all attacks, and the last run of each.
pub(super) async fn list(State(app): State<App>) -> Result<Json<List>, Problem> {
    Ok(Json(List { attacks: Attack::all().collect(), runs: attacks(&app)?.reports() }))
}

/// `GET /admin/attacks/{attack}`: its last run, which may be under way.
pub(super) async fn show(State(app): State<App>, Path(name): Path<String>) -> Result<Json<Run>, Problem> {
    let (report, moments) = attacks(&app)?.last(named(&name)?).ok_or(NO_RUN)?;
    Ok(Json(Run { report, moments }))
}

/// `POST /admin/attacks/{attack}?callers=`: begins it. It ends by itself within 30 s.
pub(super) async fn start(
    State(app): State<App>,
    Path(name): Path<String>,
    how: Result<Query<How>, QueryRejection>,
) -> Result<StatusCode, Problem> {
    let attacks = attacks(&app)?;
    let attack = named(&name)?;
    let Query(How { callers }) =
        how.map_err(|_| Problem::bad_request("the query takes `callers`, 8 to 2000 of them"))?;
    attacks.start(attack, callers)?;
    Ok(StatusCode::ACCEPTED)
}

/// `DELETE /admin/attacks`: stops the attack that is under way.
pub(super) async fn stop(State(app): State<App>) -> Result<StatusCode, Problem> {
    attacks(&app)?.stop();
    Ok(StatusCode::NO_CONTENT)
}

fn attacks(app: &App) -> Result<&Attacks, Problem> {
    app.attacks.as_ref().ok_or(OFF)
}

fn named(name: &str) -> Result<Attack, Problem> {
    Attack::from_str(name, false).map_err(|_| NO_ATTACK)
}

impl From<AttackError> for Problem {
    fn from(error: AttackError) -> Self {
        match error {
            AttackError::Running => ProblemType::AttackRunning.into(),
            AttackError::Elsewhere(why) => Self::not_found(why),
            AttackError::Sql(error) => error.into(),
            error => {
                tracing::warn!(error = %chain(&error), "an attack of the lab was not begun");
                ProblemType::Internal.into()
            }
        }
    }
}
