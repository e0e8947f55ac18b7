use std::collections::HashMap;

use axum::{Extension, Json, extract::Query};
use serde::{Deserialize, Serialize};

use super::{Events, LockLog};
use crate::{
    fleet::{Fleet, Member},
    http::Problem,
};

/// The logs of all instances, this one first.
#[derive(Debug, Serialize)]
pub(in crate::ops) struct Page {
    instances: Vec<Instance>,
}

#[derive(Debug, Serialize)]
struct Instance {
    id: String,
    address: Option<String>,
    /// `None` while none of it could be read.
    log: Option<Events>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::ops) struct After {
    #[serde(default)]
    after: String,
}

/// `GET /admin/locks/events?after=`: the events of the locks of each instance: losses and forced releases, and the
/// grants since somebody began to ask. `after` is `ID:NUMBER,ID:NUMBER…`: the number of the newest known event of each
/// instance. Another instance writes its log once a second or two, while somebody asks.
pub(in crate::ops) async fn events(
    Extension(log): Extension<LockLog>,
    Extension(fleet): Extension<Fleet>,
    after: Result<Query<After>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let known = after.ok().and_then(|Query(After { after })| known(&after));
    let known = known.ok_or_else(|| Problem::bad_request("the query takes `after=ID:NUMBER,ID:NUMBER…`"))?;
    let after = |id: &str, events: Events| events.after(known.get(id).copied().unwrap_or(0));
    let own = Instance {
        id: fleet.id().to_owned(),
        address: fleet.address().map(str::to_owned),
        log: Some(after(fleet.id(), log.events())),
    };
    let others = fleet.logs().await.into_iter().map(|(Member { id, address, .. }, text)| {
        let events = text.and_then(|text| serde_json::from_str(&text).ok());
        Instance { log: events.map(|events| after(&id, events)), id, address }
    });
    Ok(Json(Page { instances: [own].into_iter().chain(others).collect() }))
}

/// The newest events that the page knows, by instance.
fn known(after: &str) -> Option<HashMap<String, u64>> {
    let pairs = after.split(',').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (id, number) = pair.split_once(':')?;
            Some((id.to_owned(), number.parse().ok()?))
        })
        .collect()
}
