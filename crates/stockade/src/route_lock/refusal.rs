use std::{fmt, sync::Arc};

use axum::response::{IntoResponse, Response};

use super::{Problem, Rejection};
use crate::lock::LocksBuilder;

/// Why a request does not reach its handler: a finished answer, or a rejection that is rendered later.
#[derive(Debug)]
pub(crate) enum Refusal {
    Answer(Box<Response>),
    Rejection(Rejection),
}

impl Refusal {
    pub(crate) fn answer(answer: impl IntoResponse) -> Self {
        Self::Answer(Box::new(answer.into_response()))
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Rejection(rejection)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Rejection(problem.into())
    }
}

/// Renders rejections in place of problem+json.
#[derive(Clone)]
pub(crate) struct OnReject(Arc<dyn Fn(Rejection) -> Response + Send + Sync>);

impl fmt::Debug for OnReject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnReject")
    }
}

impl OnReject {
    pub(crate) fn new<F, R>(render: F) -> Self
    where
        F: Fn(Rejection) -> R + Send + Sync + 'static,
        R: IntoResponse,
    {
        Self(Arc::new(move |rejection| render(rejection).into_response()))
    }

    pub(crate) fn render(&self, rejection: Rejection) -> Response {
        (self.0)(rejection)
    }
}

impl LocksBuilder {
    /// Renders the refusals of all route locks on these locks, in place of problem+json.
    /// [`RouteLock::on_reject`](super::RouteLock::on_reject) of a route takes precedence.
    #[must_use]
    pub fn on_reject<F, R>(self, render: F) -> Self
    where
        F: Fn(Rejection) -> R + Send + Sync + 'static,
        R: IntoResponse,
    {
        self.extension(OnReject::new(render))
    }
}
