//! `/admin/locks`

use std::ops::Not;

use axum::{
    Extension, Json,
    extract::{FromRequestParts, Query, State},
    http::request::Parts,
};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use stockade::{
    lock::{Force, Inspection, LockError, Party, Unavailable},
    postgres,
};

use super::lock_log::LockLog;
use crate::{
    app::App,
    console::chain,
    http::{Problem, ProblemType, path},
    millis::millis,
};

/// The most locks that a list shows.
const MAX: usize = 1000;

/// How many locks it shows with their holders and queues.
const MAX_SHOWN: usize = 100;

#[derive(Debug, Serialize)]
pub(super) struct List {
    items: Vec<String>,
    locks: Vec<Lock>,
}

/// `GET /admin/locks`: the encoded keys that are held or waited for, over the whole fleet, at most 1000. For the
/// first 100 the answer has holders and waiters. A lock that was released in between is left out. A lock under whose
/// keys another program put a value stays in the list as `foreign`, since only a forced release removes that value.
pub(super) async fn list(State(app): State<App>) -> Result<Json<List>, Problem> {
    let mut items = app.locks.list(MAX).await?;
    items.sort_unstable();
    let shown = items.iter().take(MAX_SHOWN).map(|resource| Lock::look(&app, resource.clone()));
    let mut locks = try_join_all(shown).await?;
    locks.retain(|lock| lock.foreign || !lock.holders.is_empty() || lock.waiting > 0);
    Ok(Json(List { items, locks }))
}

#[derive(Debug, Serialize)]
pub(super) struct Lock {
    resource: String,
    holders: Vec<PartyView>,
    waiters: Vec<PartyView>,
    waiting: u64,
    /// Another program put a value under a key of the lock.
    #[serde(skip_serializing_if = "Not::not")]
    foreign: bool,
}

impl Lock {
    async fn look(app: &App, resource: String) -> Result<Self, LockError> {
        match app.locks.inspect(&resource).await {
            Ok(inspection) => Ok(Self::new(resource, inspection)),
            Err(LockError::Foreign { .. }) => {
                Ok(Self { resource, holders: Vec::new(), waiters: Vec::new(), waiting: 0, foreign: true })
            }
            Err(error) => Err(error),
        }
    }

    fn new(resource: String, inspection: Inspection) -> Self {
        let Inspection { holders, waiters, waiting, .. } = inspection;
        let view = |parties: Vec<Party>| parties.into_iter().map(PartyView::from).collect();
        Self { resource, holders: view(holders), waiters: view(waiters), waiting, foreign: false }
    }
}

/// A holder or waiter. The owner id is not shown, because it allows to release the lock.
#[derive(Debug, Serialize)]
struct PartyView {
    mode: &'static str,
    tag: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    /// The place of a waiter in the queue, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
    remaining_ms: u64,
}

impl From<Party> for PartyView {
    fn from(party: Party) -> Self {
        Self {
            mode: party.mode.as_str(),
            tag: party.tag,
            token: party.token.map(|token| token.get()),
            position: party.position,
            age_ms: party.age.map(millis),
            remaining_ms: millis(party.remaining),
        }
    }
}

/// `GET /admin/locks/{resource}`: holders and queue. A lock that nobody holds has neither.
pub(super) async fn show(State(app): State<App>, Named(resource): Named) -> Result<Json<Lock>, Problem> {
    Ok(Json(Lock::look(&app, resource).await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    /// Whether shared holders are cut off at once. Default: their leases run out.
    #[serde(default)]
    now: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Forced {
    resource: String,
    holders: u64,
    token: u64,
}

/// `DELETE /admin/locks/{resource}?now=`: takes the lock from its holders and claims its fence, so that a transaction
/// which they begin later is refused. It waits for a transaction under way, as long as a statement waits for a row, and
/// then answers 503 `fence-not-raised`. The lock is taken all the same, and the next holder that begins a transaction
/// raises the fence: its token is higher, and it waits for the same row.
pub(super) async fn force(
    State(app): State<App>,
    Extension(log): Extension<LockLog>,
    Named(resource): Named,
    how: Result<Query<How>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Forced>, Problem> {
    let Query(How { now }) = how.map_err(|_| Problem::bad_request("the query takes `now=true` or `now=false`"))?;
    let force = if now { Force::Now } else { Force::AfterLeases };
    let forced = app.locks.force_release(&resource, force).await.map_err(of_force)?;
    log.forced(&resource, forced.holders, forced.token.get());
    tracing::warn!(lock = %resource.escape_default(), holders = forced.holders, now, "an administrator forced a lock");
    let claimed = postgres::claim_forced(&app.pg, &resource, forced.token).await;
    let token = claimed.map_err(|error| {
        tracing::warn!(
            error = %chain(&error),
            lock = %resource.escape_default(),
            "the fence of a lock that was forced was not raised"
        );
        ProblemType::FenceNotRaised
    })?;
    Ok(Json(Forced { resource, holders: forced.holders, token: token.get() }))
}

/// Redis may have done, or do later, what it did not confirm. To force the lock once more would take it from the next
/// holder.
fn of_force(error: LockError) -> Problem {
    use Unavailable::{BreakerOpen, Crowded, Disconnected, Refused, SlotMoving, Unfit};
    match &error {
        LockError::Unavailable {
            reason: BreakerOpen | Crowded | Disconnected | Refused | SlotMoving | Unfit { .. },
            ..
        } => error.into(),
        LockError::Unavailable { .. } => {
            tracing::warn!(error = %chain(&error), "nobody can say whether a lock was forced");
            ProblemType::OutcomeUnknown.into()
        }
        _ => error.into(),
    }
}

/// The encoded key in the path, as the list shows it; percent-encoded once more on its way here.
pub(super) struct Named(String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = path::parameter("resource", parts, state).await?;
        if !text.contains(':') || text.chars().any(char::is_control) {
            return Err(Problem::bad_request("a lock is named kind:id, as the list shows it"));
        }
        Ok(Self(text))
    }
}
