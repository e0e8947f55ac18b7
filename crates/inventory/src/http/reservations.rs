//! `/flash/{sku}/reservations`

use axum::{
    Json,
    extract::{FromRequestParts, OptionalFromRequestParts, State},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use stockade::extract::CachePolicy;
use utoipa::{
    ToSchema,
    openapi::{ObjectBuilder, Type},
};

use super::{
    JsonBody, Problem, ProblemType,
    error::unread,
    flash::NO_SALE,
    idempotency::{IDEMPOTENT_REPLAYED, IdempotencyKey},
    openapi::{self, Endpoint, Header, Operation, Takes},
    path,
};
use crate::{
    app::App,
    console::chain,
    db,
    domain::{Customer, Sku, Units},
    flash::{Answer, Asked, Made, Name, SaleId, Stage, sale_of},
    metrics::{self, FlashOutcome},
};

const NO_RESERVATION: Problem = Problem::not_found("there is no such reservation");

/// A customer and the units that the customer wants.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = Reserve)]
#[serde(deny_unknown_fields, expecting = "an object with the fields `customer` and `quantity`")]
pub(super) struct Reserve {
    customer: Customer,
    quantity: Units,
}

/// A reservation. `pending`: Redis has it; `stored`: the database has it; `rejected`: its units were not there.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reservation)]
pub(super) struct Shown<'a> {
    id: &'a str,
    #[schema(value_type = Sku)]
    sku: &'a Sku,
    customer: &'a str,
    quantity: i64,
    /// `pending`, `stored` or `rejected`.
    state: &'static str,
}

/// The path parameter `id`.
#[derive(Debug)]
pub(super) struct Id(String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = path::parameter("id", parts, state).await?;
        // No id was ever longer, or had other characters.
        let is_one = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_one { Ok(Self(id)) } else { Err(NO_RESERVATION) }
    }
}

/// `Idempotency-Key` of a reservation.
#[derive(Debug)]
pub(super) struct Key(Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        <IdempotencyKey as OptionalFromRequestParts<S>>::from_request_parts(parts, state).await.map(Self)
    }
}

impl Takes for Key {
    fn takes(operation: &mut Operation) {
        IdempotencyKey::describe(
            operation,
            "The client's name for this reservation within its sale. A request that comes again with its key, customer \
             and quantity gets the reservation of the first, for as long as the sale is the newest of its SKU. A \
             refusal is not kept: the next try is decided again. In another sale the key names another reservation.",
        );
    }
}

impl Takes for Id {
    fn takes(operation: &mut Operation) {
        let schema = ObjectBuilder::new().schema_type(Type::String);
        let example = "1-9f86d081884c7d659a2feaa0c55ad015";
        operation.path("id", schema, example, "The id of a reservation, as it was answered.");
        operation.problems([ProblemType::BadRequest, ProblemType::NotFound]);
    }
}

/// The row of [`reserve`].
pub(super) fn collection() -> Endpoint {
    openapi::post(reserve, "Reserve units of a flash sale")
        .json::<Shown<'static>>(StatusCode::CREATED, "Reserved", &[Header::Location, Header::CacheControl])
        .problems([ProblemType::NotFound, ProblemType::SoldOut, ProblemType::LimitReached, ProblemType::SaleClosed])
        .problems([ProblemType::LoadShed, ProblemType::LockStoreUnavailable, ProblemType::OutcomeUnknown])
        .problems([ProblemType::DatabaseUnavailable, ProblemType::FenceBusy])
}

/// The row of [`show`].
pub(super) fn member() -> Endpoint {
    openapi::get(show, "A reservation")
        .json::<Shown<'static>>(StatusCode::OK, "The reservation", &[Header::CacheControl])
        .problems([ProblemType::LockStoreUnavailable])
        .problems([ProblemType::DatabaseUnavailable, ProblemType::FenceBusy])
}

/// `POST /flash/{sku}/reservations`
///
/// A new reservation takes no lock and, unless answers wait for Postgres, no statement. Nor does the refusal of a
/// request without a key, once this process knows of the sale or Redis has closed it.
pub(super) async fn reserve(
    State(app): State<App>,
    sku: Sku,
    Key(key): Key,
    body: JsonBody<Reserve>,
) -> Result<Response, Problem> {
    let Reserve { customer, quantity } = body.value;
    let name = key.as_ref().map_or_else(Name::random, |key| Name::of_key(key.as_str()));
    let asked = Asked { customer, quantity, name };
    let mut counted = Counted(FlashOutcome::Cancelled);
    let answer = match app.flash.reserve(&app.pg, &sku, &asked).await {
        Ok(Answer::Reserved(one)) => made(&app, &sku, &asked, &one, false).await,
        Ok(Answer::Known(one)) => made(&app, &sku, &asked, &one, true).await,
        Ok(Answer::Ended) => Err(ProblemType::SaleClosed.into()),
        // A request without a key repeats none. Most buyers send no key, and after the end of a sale they all come
        // here.
        Ok(Answer::Closed(_) | Answer::Stored(_)) if key.is_none() => Err(ProblemType::SaleClosed.into()),
        Ok(Answer::Unsettled) if key.is_none() && app.flash.knows_open(&sku) => Err(ProblemType::LoadShed.into()),
        Ok(Answer::Stored(sale)) => look_back(&app, &sku, &asked, key.is_some(), Some(sale), true).await,
        Ok(Answer::Closed(sale)) => look_back(&app, &sku, &asked, key.is_some(), Some(sale), false).await,
        Ok(Answer::Unsettled | Answer::Other { .. }) => look_back(&app, &sku, &asked, key.is_some(), None, false).await,
        Err(error) => Err(error.into()),
    };
    counted.0 = outcome(&answer);
    answer
}

/// A request that is counted when it ends, also if it is dropped before its answer.
struct Counted(FlashOutcome);

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::flash_reservation(self.0);
    }
}

/// The answer to a reservation that is in Redis: at once, or once Postgres has it.
async fn made(app: &App, sku: &Sku, asked: &Asked, made: &Made, is_known: bool) -> Result<Response, Problem> {
    let id = &made.id;
    // It was made: whatever Postgres says, no answer may be that nothing was applied.
    let unknown = |error| {
        tracing::warn!(error = %chain(&error), "nobody can say what became of a reservation that is repeated");
        ProblemType::OutcomeUnknown
    };
    if is_known {
        // A crowd that repeats its requests leaves connections to others, as in `look_back`.
        let _place = app.flash.place().await;
        if let Some(row) = db::flash_reservation::find(&app.pg, sku, id).await.map_err(unknown)?
            && row.decided().stands(made.generation)
        {
            return if row.stored { created(sku, asked, id, "stored", true) } else { Err(ProblemType::SoldOut.into()) };
        }
    }
    if !app.flash.is_durable() {
        return created(sku, asked, id, "pending", is_known);
    }
    match app.flash.stored(made, app.limits.request / 2).await {
        Some(true) => created(sku, asked, id, "stored", is_known),
        Some(false) => Err(ProblemType::SoldOut.into()),
        None => Err(ProblemType::OutcomeUnknown.into()),
    }
}

/// The answer if the counter gives none: that of the first request, if this one repeats it.
async fn look_back(
    app: &App,
    sku: &Sku,
    asked: &Asked,
    is_repeatable: bool,
    closed: Option<SaleId>,
    all_are_stored: bool,
) -> Result<Response, Problem> {
    // However many ask at once, writes and loads keep their connections.
    let _place = app.flash.place().await;
    let sale = db::flash_sale::newest(&app.pg, sku).await?.ok_or(NO_SALE)?;
    if is_repeatable {
        let id = asked.name.within(sale.id);
        if let Some(row) = db::flash_reservation::find(&app.pg, sku, &id).await? {
            if (row.customer.as_str(), row.quantity) != (asked.customer.as_str(), asked.quantity.get()) {
                return Err(ProblemType::IdempotencyMismatch.into());
            }
            return if row.stored {
                created(sku, asked, &id, "stored", true)
            } else {
                Err(ProblemType::SoldOut.into())
            };
        }
    }
    // Redis may have lost the sale, and what it let in may be on its way to Postgres still.
    if is_repeatable && !all_are_stored && sale.stage != Stage::Closed {
        return Err(ProblemType::OutcomeUnknown.into());
    }
    // The clock of this instance may be behind that of Redis.
    let is_over =
        closed == Some(sale.id) || sale.stage != Stage::Open || sale.ends_at <= time::OffsetDateTime::now_utc();
    Err(if is_over { ProblemType::SaleClosed } else { ProblemType::LoadShed }.into())
}

fn created(sku: &Sku, asked: &Asked, id: &str, state: &'static str, again: bool) -> Result<Response, Problem> {
    let shown = Shown { id, sku, customer: asked.customer.as_str(), quantity: asked.quantity.get(), state };
    let location = [(header::LOCATION, format!("/flash/{}/reservations/{id}", sku.path_segment()))];
    let again = again.then_some([(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"))]);
    Ok((StatusCode::CREATED, location, again, CachePolicy::no_store(), Json(shown)).into_response())
}

fn outcome(answer: &Result<Response, Problem>) -> FlashOutcome {
    match answer {
        Ok(response) if response.headers().contains_key(IDEMPOTENT_REPLAYED) => FlashOutcome::Replayed,
        Ok(_) => FlashOutcome::Reserved,
        Err(problem) => match problem.problem_type() {
            ProblemType::SoldOut => FlashOutcome::SoldOut,
            ProblemType::LimitReached => FlashOutcome::LimitReached,
            ProblemType::SaleClosed => FlashOutcome::SaleClosed,
            ProblemType::LoadShed => FlashOutcome::Shed,
            _ => FlashOutcome::Error,
        },
    }
}

/// `GET /flash/{sku}/reservations/{id}`
pub(super) async fn show(State(app): State<App>, sku: Sku, Id(id): Id) -> Result<Response, Problem> {
    sale_of(&id).ok_or(NO_RESERVATION)?;
    // Redis first: a reservation that Redis has no more, or never had, is in Postgres by then if it was ever made.
    let in_redis = app.flash.find(&sku, &id).await.map_err(|error| unread(&error));
    if let Some(row) = db::flash_reservation::find(&app.pg, &sku, &id).await? {
        let mut state = if row.stored { "stored" } else { "rejected" };
        // An earlier counter let in what was rejected, and this one let it in again.
        if !row.stored
            && matches!(in_redis, Ok(Some(_)))
            && let Some(generation) = app.flash.generation(&sku).await.map_err(|error| unread(&error))?
            && !row.decided().stands(generation)
        {
            state = "pending";
        }
        let shown = Shown { id: &id, sku: &sku, customer: &row.customer, quantity: row.quantity, state };
        return Ok((CachePolicy::no_store(), Json(shown)).into_response());
    }
    let (quantity, customer) = in_redis?.ok_or(NO_RESERVATION)?;
    let state = if db::flash_dead_letter::has(&app.pg, &id).await? { "rejected" } else { "pending" };
    let shown = Shown { id: &id, sku: &sku, customer: &customer, quantity, state };
    Ok((CachePolicy::no_store(), Json(shown)).into_response())
}
