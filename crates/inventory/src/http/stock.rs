//! `/stock` and `/stock/{sku}`.

use axum::{
    Json,
    extract::State,
    http::{
        HeaderName, StatusCode,
        header::{CONTENT_LOCATION, LOCATION},
        request::Parts,
    },
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use stockade::{
    Fence,
    cache::Cache,
    extract::{CachePolicy, Cached, CachedRejection, EntityTag, FromCache},
};
use utoipa::{
    ToSchema,
    openapi::{ObjectBuilder, Type},
};

use super::{
    JsonBody, Problem, ProblemType,
    ledger::{NO_STOCK, commit, line},
    openapi::{self, Endpoint, Header, Operation, Takes},
    page::{Page, PageQuery, bad_cursor, cursor, position},
    precondition::Precondition,
};
use crate::{
    app::App,
    db,
    domain::{Kind, Quantity, Sku, Stock},
};

/// Tells cursors of this list from those of others.
const LIST: u8 = b's';

impl FromCache<App> for Stock {
    type Key = Sku;

    fn cache(app: &App) -> &Cache<Sku, Self> {
        &app.stocks
    }

    fn version(&self) -> Option<u64> {
        Some(self.version)
    }

    /// Every client gets the same stock.
    fn cache_policy(_: &Parts, _: &App) -> CachePolicy {
        CachePolicy::shared()
    }
}

/// The rows of `/stock`.
pub(super) fn collection() -> [Endpoint; 1] {
    let list = openapi::get(list, "All stock, in the order of the SKUs")
        .json::<Page<Stock>>(StatusCode::OK, "A page of stock", &[Header::CacheControl])
        .problems([ProblemType::DatabaseUnavailable]);
    [list]
}

/// The rows of `/stock/{sku}`.
pub(super) fn member() -> [Endpoint; 3] {
    let of_cache = [Header::Age, Header::CacheControl, Header::CacheStatus, Header::ETag];
    let of_write = [Header::CacheControl, Header::ContentLocation, Header::ETag];
    let created = [Header::CacheControl, Header::ContentLocation, Header::ETag, Header::Location];
    let show = openapi::get(show, "The stock of a SKU, from the cache")
        .json::<Stock>(StatusCode::OK, "What is on hand", &of_cache)
        .empty(StatusCode::NOT_MODIFIED, "It is what `If-None-Match` names", &of_cache);
    let set = openapi::put(set, "Set the stock of a SKU, which creates it where there is none")
        .json::<Stock>(StatusCode::OK, "Set", &of_write)
        .json::<Stock>(StatusCode::CREATED, "Created", &created);
    let remove = openapi::delete(remove, "Remove the stock of a SKU")
        .empty(StatusCode::NO_CONTENT, "Removed", &[])
        .problems([ProblemType::NotFound]);
    [show, set, remove]
}

impl Takes for Result<Cached<Stock>, CachedRejection<Problem>> {
    fn takes(operation: &mut Operation) {
        Sku::takes(operation);
        let tags = ObjectBuilder::new().schema_type(Type::String);
        operation.parameter(openapi::header_parameter(
            "If-None-Match",
            tags,
            "\"7-5d41402abc4b2a76\"",
            "Entity tags of answers that the client has. When one still holds, the answer is 304.",
        ));
        operation.problem_header(Header::Age);
        operation.problem_header(Header::CacheStatus);
        operation.problems([
            ProblemType::NotFound,
            ProblemType::LoadShed,
            ProblemType::DatabaseUnavailable,
            ProblemType::ShuttingDown,
        ]);
    }
}

/// `GET /stock/{sku}`
pub(super) async fn show(stock: Result<Cached<Stock>, CachedRejection<Problem>>) -> Response {
    match stock {
        Ok(stock) => stock.into_response(),
        // The problem replaces the document; the cache headers of the rejection stay.
        Err(rejection) => {
            let problem = Problem::from(&rejection);
            let mut response = rejection.into_response();
            response.extensions_mut().insert(problem);
            response
        }
    }
}

/// `GET /stock`
pub(super) async fn list(State(app): State<App>, query: PageQuery) -> Result<Page<Stock>, Problem> {
    let after = query.after.map(|text| sku_of(&text)).transpose()?;
    let rows = db::stock::page(&app.pg, after.as_ref(), query.limit.rows()).await?;
    Ok(Page::new(rows, query.limit, |stock| cursor(LIST, stock.sku.as_str().as_bytes())))
}

fn sku_of(text: &str) -> Result<Sku, Problem> {
    let position = position(LIST, text)?;
    std::str::from_utf8(&position).ok().and_then(|sku| Sku::new(sku).ok()).ok_or_else(bad_cursor)
}

/// The quantity that a client sets.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object with the field `quantity`")]
pub(super) struct SetStock {
    quantity: Quantity,
}

/// `PUT /stock/{sku}`
pub(super) async fn set(
    State(app): State<App>,
    fence: Fence,
    sku: Sku,
    precondition: Precondition,
    body: JsonBody<SetStock>,
) -> Result<Response, Problem> {
    let quantity = body.value.quantity;
    let mut tx = fence.begin(&app.pg).await?;
    let old = db::stock::find(&mut *tx, &sku).await?;
    precondition.check(old.as_ref().map(|stock| tag(&app, stock)).transpose()?)?;
    let (status, stock) = match old {
        // Setting what is already there changes nothing, not even the version: a repeated PUT is the same PUT.
        Some(stock) if stock.quantity == quantity => {
            tx.rollback().await?;
            return Ok(
                (fence, tag(&app, &stock)?, CachePolicy::shared(), content_of(&sku), Json(stock)).into_response()
            );
        }
        Some(old) => {
            let line = line(&fence, Kind::Set, old.quantity, quantity, None);
            (StatusCode::OK, db::stock::update(&mut tx, &sku, quantity, &line).await?)
        }
        None => {
            let line = line(&fence, Kind::Set, Quantity::ZERO, quantity, None);
            app.creates(&mut tx, &sku);
            (StatusCode::CREATED, db::stock::insert(&mut tx, &sku, quantity, &line).await?)
        }
    };
    let tag = tag(&app, &stock)?;
    commit(tx, &app, [&sku], Kind::Set).await?;
    let location = (status == StatusCode::CREATED).then(|| [(LOCATION, path_of(&sku))]);
    Ok((status, fence, tag, CachePolicy::shared(), content_of(&sku), location, Json(stock)).into_response())
}

/// `DELETE /stock/{sku}`
pub(super) async fn remove(
    State(app): State<App>,
    fence: Fence,
    sku: Sku,
    precondition: Precondition,
) -> Result<Response, Problem> {
    let mut tx = fence.begin(&app.pg).await?;
    let old = db::stock::find(&mut *tx, &sku).await?;
    precondition.check(old.as_ref().map(|stock| tag(&app, stock)).transpose()?)?;
    let Some(old) = old else { return Err(NO_STOCK) };
    let line = line(&fence, Kind::Delete, old.quantity, Quantity::ZERO, None);
    db::stock::delete(&mut tx, &sku, &line).await?;
    commit(tx, &app, [&sku], Kind::Delete).await?;
    Ok((StatusCode::NO_CONTENT, fence, ()).into_response())
}

/// The tag with which a read answers for this stock.
fn tag(app: &App, stock: &Stock) -> Result<EntityTag, Problem> {
    EntityTag::of::<Stock, _>(app, &stock.sku, stock.version).map_err(|error| {
        tracing::error!(%error, "a SKU has no key");
        ProblemType::Internal.into()
    })
}

/// Says that the answer to a PUT has the stock as a read answers it. So its tag is that of this document, and not that
/// of the one that the client sent (RFC 9110, sections 8.7 and 9.3.4).
fn content_of(sku: &Sku) -> [(HeaderName, String); 1] {
    [(CONTENT_LOCATION, path_of(sku))]
}

fn path_of(sku: &Sku) -> String {
    format!("/stock/{}", sku.path_segment())
}
