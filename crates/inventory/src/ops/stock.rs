//! `/admin/stock`

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use serde::Deserialize;

use crate::{
    app::App,
    db::{self, stock::Traced},
    domain::Sku,
    http::{
        Problem,
        page::{Limit, Page},
    },
};

/// How many SKUs a page has.
const ROWS: Limit = Limit(20);

/// How many of the last movements of each SKU it shows.
const MOVEMENTS: i64 = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    #[serde(default)]
    prefix: String,
    after: Option<Sku>,
}

/// `GET /admin/stock?prefix=&after=`: the SKUs that begin with `prefix`, 20 at a time, with the quantity in Postgres
/// and the quantities after their last 50 movements.
pub(super) async fn search(
    State(app): State<App>,
    query: Result<Query<Search>, QueryRejection>,
) -> Result<Json<Page<Traced>>, Problem> {
    let Query(Search { prefix, after }) =
        query.map_err(|_| Problem::bad_request("the query takes `prefix`, and as `after` a SKU, each once"))?;
    if prefix.chars().count() > Sku::MAX_CHARS || prefix.chars().any(char::is_control) {
        return Err(Problem::bad_request("`prefix` has at most 64 characters, none of them a control character"));
    }
    let rows = db::stock::search(&app.pg, &prefix, after.as_ref(), ROWS.rows(), MOVEMENTS).await?;
    Ok(Json(Page::new(rows, ROWS, |row| row.stock.sku.to_string())))
}
