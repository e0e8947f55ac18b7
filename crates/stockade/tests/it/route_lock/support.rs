use std::{borrow::Cow, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, Path, Request},
    http::{HeaderMap, Method, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::Value;
use stockade::{Guard, Locks, Resource};
use stockade_testbed::eventually;
use tower::ServiceExt;

pub(super) use crate::world::waiting;

/// A short wait, for attempts that must end by it.
pub(super) const SHORT: Duration = Duration::from_millis(100);
/// The limit for each wait. Only a failing test reaches it.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Sku(pub(super) String);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl<S: Sync + Send> FromRequestParts<S> for Sku {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Path(id) = Path::<String>::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
        if id == "bad" { Err((StatusCode::BAD_REQUEST, "not a SKU").into_response()) } else { Ok(Self(id)) }
    }
}

pub(super) fn request(method: Method, path: &str) -> Request {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}

pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The members of a problem. Fails unless the answer is a problem with this status and type.
    #[track_caller]
    pub(super) fn refusal(&self, status: u16, slug: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.headers["cache-control"], "no-store");
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["type"], format!("/problems/{slug}"));
        assert_eq!(problem["status"], status);
        problem
    }
}

pub(super) async fn send(app: &Router, request: Request) -> Answer {
    let response = tokio::time::timeout(LIMIT, app.clone().oneshot(request)).await.expect("no answer").unwrap();
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(LIMIT, body.collect()).await.expect("no end of the body").unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// Waits until no lock is held or waited for.
pub(super) async fn idle(locks: &Locks) {
    eventually("all locks free", async || locks.list(10).await.unwrap().is_empty()).await;
}

pub(super) async fn hold(locks: &Locks, id: &str) -> Guard {
    locks.write(&Sku(id.to_owned())).wait(LIMIT).acquire().await.unwrap()
}

/// Whether another request could take the lock to write now.
pub(super) async fn is_free(locks: &Locks, id: &str) -> bool {
    locks.write(&Sku(id.to_owned())).try_acquire().await.unwrap().is_some()
}
