use std::convert::Infallible;

use axum::{
    Extension,
    response::{Sse, sse::Event},
};
use futures_util::{Stream, stream::unfold};

use super::Feed;
use crate::http::{Problem, ProblemType};

/// `GET /console/events`: a snapshot of this instance at once and then every second, as server-sent events, until the
/// instance ends. `GET /console/fleet`: the same of all instances. 503 `load-shed` when all places are taken.
///
/// The routes need no token: they show only what `/metrics` and `/readyz` show, and no name of a SKU or a lock.
pub(in crate::ops) async fn events(
    Extension(feed): Extension<Feed>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let listener = feed.listen().ok_or(ProblemType::LoadShed)?;
    Ok(Sse::new(unfold(listener, async |mut listener| {
        let snapshot = listener.next().await?;
        Some((Ok(Event::default().data(&*snapshot)), listener))
    })))
}
