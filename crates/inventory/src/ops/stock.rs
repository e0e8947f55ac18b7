//! `/admin/stock`

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use serde::{Deserialize, Serialize};

use crate::{
    app::App,
    db::{self, stock::Traced},
    domain::{Sku, Stock},
    http::Problem,
};

/// How many SKUs a page has.
const ROWS: usize = 20;

/// How many of the last movements of each SKU it shows.
const MOVEMENTS: i64 = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    #[serde(default)]
    prefix: String,
    after: Option<Sku>,
}

#[derive(Debug, Serialize)]
pub(super) struct Page {
    items: Vec<Found>,
    /// The `after` of the next page; null on the last.
    next: Option<Sku>,
}

#[derive(Debug, Serialize)]
struct Found {
    #[serde(flatten)]
    stock: Stock,
    /// The quantity after each of the last movements, oldest first.
    ledger: Vec<i64>,
}

impl From<Traced> for Found {
    fn from(Traced { stock, ledger }: Traced) -> Self {
        Self { stock, ledger }
    }
}

/// `GET /admin/stock?prefix=&after=`: the SKUs that begin with `prefix`, 20 at a time, with the quantity in Postgres
/// and the quantities after their last 50 movements.
pub(super) async fn search(
    State(app): State<App>,
    query: Result<Query<Search>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(Search { prefix, after }) =
        query.map_err(|_| Problem::bad_request("the query takes `prefix`, and as `after` a SKU, each once"))?;
    if prefix.chars().count() > Sku::MAX_CHARS || prefix.chars().any(char::is_control) {
        return Err(Problem::bad_request("`prefix` has at most 64 characters, none of them a control character"));
    }
    let limit = i64::try_from(ROWS + 1).unwrap_or(i64::MAX);
    let mut rows = db::stock::search(&app.pg, &prefix, after.as_ref(), limit, MOVEMENTS).await?;
    let has_more = rows.len() > ROWS;
    rows.truncate(ROWS);
    let next = rows.last().filter(|_| has_more).map(|row| row.stock.sku.clone());
    Ok(Json(Page { items: rows.into_iter().map(Found::from).collect(), next }))
}
