use std::{convert::Infallible, time::Duration};

use axum::{body::Bytes, extract::Request, http::Response};
use reqwest::RequestBuilder;
use tracing::Span;
use tracing_subscriber::layer::Identity;

use super::{variables::wanted, whole::whole};
use crate::config::ConfigError;

/// In place of the exporter, in a build without it.
pub(crate) struct Exporter(Option<Infallible>);

impl Exporter {
    pub(crate) fn from_env() -> Result<Self, ConfigError> {
        Ok(Self(None))
    }

    pub(crate) fn layer(&self) -> Option<Identity> {
        self.0.map(|none| match none {})
    }

    pub(crate) fn report(&self) {
        if let (None, Some(variable)) = (self.0, wanted()) {
            tracing::warn!(variable, "this build exports no spans: build it with the feature `otlp`");
        }
    }

    pub(crate) async fn shutdown(self, _limit: Duration) -> bool {
        true
    }
}

/// None: a request has its span in the log only.
pub(crate) fn server_span(_request: &Request, _id: &str, _logged: &Span) -> Span {
    Span::none()
}

pub(crate) fn within<F>(_server: &Span, answer: F) -> F {
    answer
}

/// Sends a request, as it is, and reads its answer to the end.
pub(crate) async fn send(_route: &'static str, request: RequestBuilder) -> reqwest::Result<Response<Bytes>> {
    let (client, request) = request.build_split();
    whole(&client, request?).await
}

/// None: there is no span that could be named.
pub(crate) fn traceparent() -> Option<String> {
    None
}

pub(crate) fn link<'a>(_traceparents: impl Iterator<Item = &'a str>) {}
