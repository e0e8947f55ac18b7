//! `/stock/{sku}/movements`

use axum::{extract::State, http::StatusCode};

use super::{
    Problem, ProblemType,
    ledger::NO_STOCK,
    openapi::{self, Endpoint, Header},
    page::{Page, PageQuery, bad_cursor, cursor, position},
};
use crate::{
    app::App,
    db,
    domain::{Movement, Sku},
};

/// Tells cursors of this list from those of others.
const LIST: u8 = b'm';

/// The row of [`list`].
pub(super) fn endpoint() -> Endpoint {
    openapi::get(list, "The ledger of a SKU, newest first; a SKU that was deleted keeps it")
        .json::<Page<Movement>>(StatusCode::OK, "A page of movements", &[Header::CacheControl])
        .problems([ProblemType::NotFound, ProblemType::DatabaseUnavailable])
}

/// `GET /stock/{sku}/movements`, newest first. A SKU that was deleted keeps its ledger.
pub(crate) async fn list(State(app): State<App>, sku: Sku, query: PageQuery) -> Result<Page<Movement>, Problem> {
    let before = query.after.map(|text| id_of(&text)).transpose()?;
    let rows = db::movement::page(&app.pg, &sku, before, query.limit.rows()).await?;
    // Stock that was created empty has no movement yet.
    if rows.is_empty() && before.is_none() && db::stock::find(&app.pg, &sku).await?.is_none() {
        return Err(NO_STOCK);
    }
    Ok(Page::new(rows, query.limit, |movement| cursor(LIST, &movement.id.to_be_bytes())))
}

fn id_of(text: &str) -> Result<i64, Problem> {
    position(LIST, text)?.try_into().map(i64::from_be_bytes).map_err(|_| bad_cursor())
}
