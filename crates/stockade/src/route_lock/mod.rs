//! Locks as a Tower layer. [`RouteLock`] runs each request of a route under the lock of the resource that it names.
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
//!     (fence, format!("{} is changed by nobody else meanwhile", sku.0))
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
//! Add the layer to the methods of a route with [`MethodRouter::route_layer`], or to one handler with
//! [`Handler::layer`]. Do not add it elsewhere:
//!
//! - `MethodRouter::layer`, `Router::layer` and `Router::route_layer` also wrap the handler that answers 405. Every
//!   `PURGE` would then take the lock of the resource, and a flood of them would stop its writers.
//! - `get(show).layer(read).put(set).layer(write)` reads like one lock per method, but the second layer wraps both
//!   methods. A `GET` would take the write lock and then be refused as `nested-lock`. Give each handler its own layer:
//!   `get(show.layer(read)).put(set.layer(write))`. Or give both one layer, which chooses the mode by method.
//!
//! The layer goes innermost. Authentication, rate limits, body limits and time-outs go further out, so that a request
//! that they refuse never takes a lock. A time-out further out covers the wait and the handler. When it fires, a read
//! is dropped; a write goes on to its end under its own limit. So it must answer unsafe methods as
//! [`Problem::OutcomeUnknown`], and not by 408, after which a client may repeat the write. A limit of requests that run
//! at once does not count a write that goes on after its client. `CatchPanic` belongs outside of all these.
//!
//! Of two layers that lock the *same* resource for one request, the inner one would wait for the outer one. The request
//! is refused at once with 500, and the log names both routes. A layer sees only other layers of the same request. A
//! handler may acquire the resource by [`Locks`](crate::Locks), or send a request of its own to a route that locks it.
//! This second acquire waits for the first until it times out: use the [`Fence`](crate::Fence) of the route.
//!
//! Two layers may lock two resources. The handler then keeps both locks to its end, also if the layer further out has
//! ended before, as a read does whose client has gone. It ends by the earlier of the two longest holds.
//!
//! # What happens to a request
//!
//! 1. The method gives the mode: shared for safe methods, exclusive for the others. [`RouteLock::read`] and
//!    [`RouteLock::write`] override this. `OPTIONS` never locks.
//! 2. The key is found and checked. A request without a valid key is answered 4xx, before any store is asked.
//! 3. The body is read into memory, up to [`RouteLock::body_limit`] (413) within [`RouteLock::body_timeout`] (408). So
//!    a client that sends a byte per second holds no lock; [`RouteLock::stream_body`] opts out. Bodies of reads are
//!    read too: a `GET` with a slow body would keep writers out.
//! 4. The request waits for its turn, at most [`RouteLock::wait`]. A read waits at most [`RouteLock::read_wait`], if
//!    that is set.
//! 5. The handler runs. It can extract the [`Fence`](crate::Fence).
//! 6. If the length of the response body is known, the lock is released before the head of the response goes out. A
//!    body of unknown length keeps the lock to its end, but no longer than [`RouteLock::max_hold`] after the grant, even
//!    if the client stops reading. A streamed read then breaks off, since its rest would be read without a lock. A body
//!    that is passed on from another service may have a known length: [`RouteLock::hold`] keeps the lock to its end.
//!
//! Reads run within their request. They end with the client, with the loss of the lock, and after the longest hold. A
//! read that goes on without its lock has no such limit.
//!
//! Requests of unsafe methods, and all requests in exclusive mode, run on a task that the locks own, in the span of the
//! request. A shutdown waits for them. They go on when the client goes away or the lock is lost: if a handler were
//! dropped within its commit, its client would never learn the outcome. The handler learns of the loss through
//! [`Fence::lost`](crate::Fence::lost), and the fence in the database refuses late writes. Values of
//! `tokio::task_local!` do not follow a request to that task. A request of an unsafe method that goes on without its
//! shared lock (with [`RouteLock::read`]) also runs on such a task. It is answered `outcome-unknown` if it takes longer
//! than [`RouteLock::max_hold`] and [`RouteLock::commit_timeout`] together, or if a shutdown reaches its limit.
//!
//! # Several resources
//!
//! [`RouteLock::write_all`] locks all resources that a request names, also in its body, with the same promises. A
//! handler that takes such locks itself is dropped when its client goes away, possibly within a commit.
//!
//! # Answers
//!
//! Refusals are problem+json and say what the client may do, with `Retry-After` if a retry makes sense.
//! [`RouteLock::on_reject`] and [`LocksBuilder::on_reject`](crate::lock::LocksBuilder::on_reject) replace the
//! rendering. The inner service keeps its error type.
//!
//! | situation | answer |
//! |---|---|
//! | the wait is over | 423 `lock-timeout`; with [`RouteLock::read_wait`] reads run without the lock, marked [`Unlocked`], also when too many wait |
//! | too many wait already | 429 `queue-full`, `Retry-After` is estimated from how many wait and how long requests of the route took so far, never from the lease |
//! | the store is unreachable or frozen, or its breaker open | 503 `lock-store-unavailable`; with [`OnStoreError::Proceed`] reads run without the lock, marked [`Degraded`] |
//! | a read loses its lock or holds it too long | 503 `lease-lost` |
//! | a write holds its lock too long, no commit sent | the handler is dropped, 503 `lease-lost`; a transaction it left behind can't commit any more |
//! | a write holds its lock too long, commit sent | its own answer; 503 `outcome-unknown` if it gives none within [`RouteLock::commit_timeout`] |
//! | the handler panics | the lock is released and the panic propagates |
//! | the handler switches protocols | 501 `upgrade-refused`, see [`RouteLock::allow_upgrades`] |
//! | a resource is locked twice | 500 `nested-lock` |
//! | a shutdown has begun, or is over its limit | 503 `shutting-down` |
//!
//! `applied` in a refusal is `false` if the request certainly changed nothing, and `null` if that is unknown. It covers
//! each commit of a `postgres::Tx` in the task of the handler, also under a lock that the handler took itself, or under
//! none. In a task that the handler spawned, it covers only transactions of the route's fence. Before other writes,
//! call [`Fence::commit_started`](crate::Fence::commit_started) of that fence.
//!
//! [`Handler::layer`]: axum::handler::Handler::layer
//! [`MethodRouter::route_layer`]: axum::routing::MethodRouter::route_layer

mod body;
mod grant;
mod keys;
mod layer;
mod limits;
mod lock_wait;
mod pace;
mod problem;
mod refusal;
mod rejection;
mod request_locks;
mod route;
mod section;
mod service;
mod setters;
mod settings;
mod template;
#[cfg(test)]
mod tests;
mod upload;

pub use layer::RouteLock;
pub use lock_wait::LockWait;
pub use problem::Problem;
pub use rejection::Rejection;
pub use request_locks::{Degraded, Unlocked};
pub use service::RouteLockService;
pub use settings::{OnStoreError, Until};

use body::{HeldBody, Hold};
use grant::Grant;
use keys::{Finder, KeyOf, Keys, extract, finder};
use limits::Limits;
use pace::Pace;
use refusal::{OnReject, Refusal};
pub(crate) use request_locks::RequestLocks;
use route::{Admitted, Route};
use section::Section;
use settings::Settings;
use template::Template;
use upload::Upload;
