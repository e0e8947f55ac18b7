use std::time::Duration;

use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};
use tracing::{Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use super::{
    TARGET, check,
    variables::{value, wanted},
};
use crate::config::ConfigError;

/// Sends spans in batches from a thread of its own, out of a bounded queue. A span is dropped if the queue is full.
pub(crate) struct Exporter(Option<SdkTracerProvider>);

impl Exporter {
    /// Configures the exporter by the environment variables. Without the address of a collector nothing is exported.
    pub(crate) fn from_env() -> Result<Self, ConfigError> {
        let Some(variable) = wanted() else { return Ok(Self(None)) };
        check::all(variable)?;
        let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).build();
        let exporter = exporter.map_err(|error| {
            let remedy = "use http://HOST:4318 for the endpoint, and KEY=VALUE pairs for headers";
            ConfigError::new(variable, format!("no exporter can be made: {error}"), remedy)
        })?;
        Ok(Self(Some(SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build())))
    }

    /// The layer that takes the spans of the service and of the library. `None` if spans are not exported.
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let tracer = self.0.as_ref()?.tracer("inventory");
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_context_activation(false)
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        let spans = Targets::new()
            .with_target("inventory", LevelFilter::DEBUG)
            .with_target("stockade", LevelFilter::DEBUG)
            .with_target(TARGET, LevelFilter::DEBUG)
            // A request has another span for the collector, so its span in the log is left out.
            .with_target("inventory::http::trace", LevelFilter::OFF);
        Some(layer.with_filter(spans))
    }

    pub(crate) fn report(&self) {
        if let (Some(_), Some(variable)) = (&self.0, wanted()) {
            tracing::info!(variable, "spans are exported to a collector");
        }
    }

    /// Sends the spans that are left, for `limit` at most. Returns whether all of those were sent.
    pub(crate) async fn shutdown(self, limit: Duration) -> bool {
        let Some(provider) = self.0 else { return true };
        let began = Instant::now();
        let sent = spawn_blocking(move || {
            // The shutdown sends them, too, and does not say whether they arrived.
            let sent = provider.force_flush();
            provider.shutdown_with_timeout(limit.saturating_sub(began.elapsed())).and(sent)
        });
        matches!(timeout(limit, sent).await, Ok(Ok(Ok(()))))
    }
}

fn resource() -> Resource {
    let named = value("OTEL_SERVICE_NAME").is_some()
        || value("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|pairs| pairs.contains("service.name="));
    let builder = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if named { builder.build() } else { builder.with_service_name("inventory").build() }
}
