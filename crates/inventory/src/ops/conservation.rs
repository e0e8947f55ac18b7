//! `/admin/conservation`

use axum::{Json, extract::State};
use serde::Serialize;

use crate::{
    app::App,
    conservation::{Conservation, Violation, check_ledger},
    http::Problem,
};

#[derive(Debug, Serialize)]
pub(super) struct View {
    holds: bool,
    skus: u64,
    movements: u64,
    violations: Vec<Broken>,
}

#[derive(Debug, Serialize)]
struct Broken {
    rule: String,
    count: usize,
    examples: Vec<String>,
}

impl From<Violation> for Broken {
    fn from(Violation { rule, count, examples }: Violation) -> Self {
        Self { rule: rule.to_string(), count, examples }
    }
}

/// `GET /admin/conservation`: the ledger against the stock, in one snapshot. It reads both tables to their end: a
/// ledger that is too long for `STATEMENT_TIMEOUT` is 503.
pub(super) async fn show(State(app): State<App>) -> Result<Json<View>, Problem> {
    let checked = check_ledger(&app.pg).await?;
    let holds = checked.holds();
    let Conservation { skus, movements, violations } = checked;
    Ok(Json(View { holds, skus, movements, violations: violations.into_iter().map(Broken::from).collect() }))
}
