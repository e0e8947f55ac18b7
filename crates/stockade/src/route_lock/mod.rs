//! The lock as a Tower layer: [`RouteLock`] runs the requests of a route under the lock of the resource they name.
//!
//! ```
//! use std::{borrow::Cow, convert::Infallible, time::Duration};
//!
//! use axum::{Router, extract::{FromRequestParts, Path}, http::request::Parts, routing::get};
//! use stockade::{Fence, Locks, Resource, route_lock::RouteLock};
//!
//! /// Extractor and resource in one.
//! struct Sku(String);
//!
//! impl Resource for Sku {
//!     const KIND: &'static str = "stock";
//!     fn id(&self) -> Cow<'_, str> {
//!         Cow::Borrowed(&self.0)
//!     }
//! }
//!
//! impl<S: Send + Sync> FromRequestParts<S> for Sku {
//!     type Rejection = axum::extract::rejection::PathRejection;
//!     async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
//!         let Path(sku) = Path::from_request_parts(parts, state).await?;
//!         Ok(Self(sku))
//!     }
//! }
//!
//! async fn show(sku: Sku) -> String {
//!     format!("{} is not written meanwhile", sku.0)
//! }
//!
//! async fn adjust(sku: Sku, fence: Fence) -> (Fence, String) {
//!     // The fence in the response is its `Fencing-Token` header.
//!     (fence, format!("{} is nobody else's meanwhile", sku.0))
//! }
//!
//! let locks = Locks::memory();
//! let lock = RouteLock::by::<Sku>(&locks).wait(Duration::from_secs(2));
//! let app: Router = Router::new()
//!     .route("/stock/{sku}", get(show).post(adjust).route_layer(lock))
//!     .route("/reports/{day}", get(|| async {}).route_layer(RouteLock::template(&locks, "report:{day}")));
//! ```
//!
//! # Where it goes
//!
//! On the methods of a route with [`MethodRouter::route_layer`], or on one handler with [`Handler::layer`]. Nowhere
//! else:
//!
//! - `MethodRouter::layer`, `Router::layer` and `Router::route_layer` also wrap what answers 405. Every `PURGE` and
//!   every CORS preflight would then take the lock of the resource, so that a flood of them stops its writers.
//! - `get(show).layer(read).put(set).layer(write)` reads as one lock per method, but the second layer wraps both: a
//!   `GET` would wait for the write lock and then, within it, for itself. Give each handler its own:
//!   `get(show.layer(read)).put(set.layer(write))`, or both one layer, which chooses the mode by method.
//!
//! Innermost, too: authentication, rate limits, body limits and time-outs go further out, so that a request that is
//! going to be refused never takes a lock. A time-out further out covers the wait as well as the handler; when it
//! fires, a read is dropped and a write goes on to its end under its own limit. `CatchPanic` belongs outside of both.
//!
//! A second lock of the *same* resource within one request could only wait for itself. It is refused at once with 500,
//! and the log names both routes. This holds for one request on its way through its layers; a handler that sends a
//! request of its own to a route that locks the same resource waits until one of the two gives up.
//!
//! # What happens to a request
//!
//! 1. Its method gives the mode: shared for safe methods, exclusive for the others; [`RouteLock::read`] and
//!    [`RouteLock::write`] override. `OPTIONS` never locks.
//! 2. Its key is found and checked. What has no key is a 4xx, and no store has been asked.
//! 3. Its body is read into memory, up to [`RouteLock::body_limit`] (413) within [`RouteLock::body_timeout`] (408). A
//!    client that sends a byte per second has thus nothing to hold; [`RouteLock::stream_body`] opts out. This goes for
//!    reads too: a `GET` with a slow body would keep writers out.
//! 4. It waits its turn, at most [`RouteLock::wait`]; a read at most [`RouteLock::read_wait`], where that is set.
//! 5. Its handler runs, with the [`Fence`](crate::Fence) among its extractors.
//! 6. The lock is given back before the head of the response goes out, if the length of its body is known. A streamed
//!    body keeps it to its end, but no longer than [`RouteLock::max_hold`] after the grant, also when the client stops
//!    reading. A streamed read then breaks off, as its rest would be read without a lock.
//!
//! Reads run within their request: they end with the client, with the loss of the lock and after the longest hold.
//! Requests of unsafe methods, and all in exclusive mode, run on a task that the locks own and a shutdown waits for, in
//! the span of the request. A client that goes away does not end them, nor does the loss of the lock: a handler dropped
//! within its commit would have written something that its client was never told of. The loss is told through
//! [`Fence::lost`](crate::Fence::lost), and the fence in the database refuses what comes too late. Values of
//! `tokio::task_local!` do not follow a request to that task.
//!
//! # Several resources
//!
//! [`RouteLock::write_all`] locks all resources that a request names, also in its body, with the same promises: a
//! handler that asked for them itself would lose its writes when the client goes away, and could not say what became of
//! a commit.
//!
//! # Answers
//!
//! Refusals are problem+json with `Retry-After` where a retry makes sense; [`RouteLock::on_reject`] and
//! [`LocksBuilder::on_reject`](crate::lock::LocksBuilder::on_reject) render them otherwise. The inner service keeps its
//! error type.
//!
//! | situation | answer |
//! |---|---|
//! | the wait is over | 423 `lock-timeout`; with [`RouteLock::read_wait`] reads run without the lock, marked [`Unlocked`], also when too many wait |
//! | too many wait already | 429 `queue-full`, `Retry-After` reckoned from how many wait and how fast requests of the route were so far, never from the lease |
//! | the store is unreachable or frozen, or its breaker open | 503 `lock-store-unavailable`; with [`OnStoreError::Proceed`] reads run without the lock, marked [`Degraded`] |
//! | a read loses its lock or holds it too long | 503 `lease-lost` |
//! | a write holds its lock too long, no commit sent | the handler is dropped, 503 `lease-lost`; a transaction it left behind can't commit any more |
//! | a write holds its lock too long, commit sent | its own answer; 503 `outcome-unknown` if it gives none within [`RouteLock::commit_timeout`] |
//! | the handler panics | the lock is released and the panic propagates |
//! | the handler switches protocols | 501 `upgrade-refused`, see [`RouteLock::allow_upgrades`] |
//! | a resource is locked twice | 500 `nested-lock` |
//! | a shutdown has begun, or is over its limit | 503 `shutting-down` |
//!
//! `applied` in a refusal is `false` when the request certainly changed nothing, and `null` when nobody can say. It
//! covers what was written through a transaction of the fence; writes on other ways say so by
//! [`Fence::commit_started`](crate::Fence::commit_started).
//!
//! [`Handler::layer`]: axum::handler::Handler::layer
//! [`MethodRouter::route_layer`]: axum::routing::MethodRouter::route_layer

mod body;
mod future;
mod grant;
mod keys;
mod layer;
mod lock_wait;
mod pace;
mod problem;
mod refusal;
mod rejection;
mod request_locks;
mod route;
mod section;
mod service;
mod settings;
mod template;
#[cfg(test)]
mod tests;
mod upload;

pub use future::ResponseFuture;
pub use layer::RouteLock;
pub use lock_wait::LockWait;
pub use problem::Problem;
pub use rejection::Rejection;
pub use request_locks::{Degraded, Unlocked};
pub use service::RouteLockService;
pub use settings::{OnStoreError, Until};

use body::HeldBody;
use grant::Grant;
use keys::{Finder, KeyOf, Keys};
use pace::Pace;
use refusal::{OnReject, Refusal};
pub(crate) use request_locks::RequestLocks;
use route::Route;
use section::{Section, call};
use settings::Settings;
use template::Template;
use upload::Upload;
