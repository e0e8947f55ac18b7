//! `/admin/conservation`

use axum::{Json, extract::State};
use serde::Serialize;

use crate::{
    app::App,
    conservation::{Conservation, check_ledger},
    http::Problem,
};

#[derive(Debug, Serialize)]
pub(super) struct View {
    holds: bool,
    #[serde(flatten)]
    checked: Conservation,
}

/// `GET /admin/conservation`: the ledger against the stock, in one snapshot. It reads both tables to their end: a
/// ledger that is too long for `STATEMENT_TIMEOUT` is 503.
pub(super) async fn show(State(app): State<App>) -> Result<Json<View>, Problem> {
    let checked = check_ledger(&app.pg).await?;
    Ok(Json(View { holds: checked.holds(), checked }))
}
