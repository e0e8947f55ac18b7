//! Spans to an OpenTelemetry collector, by OTLP over HTTP, as the standard `OTEL_…` variables say. Needs the feature
//! `otlp`: `serve` in a build without it says so if the variables are set.
//!
//! The trace of a caller goes on, as that of `inventory replay` does: its `traceparent` is the parent of the request's
//! span. Work that goes on after the answer carries the `traceparent` of the request, and its span is linked to the
//! span of the request.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod carried;
#[cfg(feature = "otlp")]
mod check;
#[cfg(feature = "otlp")]
mod client_span;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod server_span;
mod variables;
mod whole;

#[cfg(not(feature = "otlp"))]
pub(crate) use absent::{Exporter, link, send, server_span, traceparent, within};
#[cfg(feature = "otlp")]
pub(crate) use carried::{link, traceparent};
#[cfg(feature = "otlp")]
pub(crate) use client_span::send;
#[cfg(feature = "otlp")]
pub(crate) use exporter::Exporter;
#[cfg(feature = "otlp")]
pub(crate) use server_span::{server_span, within};

/// The target of spans that are for the collector alone: requests have another span in the log.
pub(crate) const TARGET: &str = "otel";
