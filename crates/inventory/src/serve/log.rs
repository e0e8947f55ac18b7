use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::{
    config::LogFormat,
    traces::{self, Exporter},
};

/// Sends log lines to standard error; standard output is for what the command says to its caller. Spans go to the
/// collector too, if there is one.
pub(super) fn install(format: LogFormat, filter: Targets, exporter: &Exporter) {
    // Only the span of a request is at `info`. If its inner spans are logged too, its id is in the list of spans.
    let with_list = Layer::<Registry>::max_level_hint(&filter).is_none_or(|level| level >= LevelFilter::DEBUG);
    let filter = filter.with_target(traces::TARGET, LevelFilter::OFF);
    // An error means that a subscriber is installed already, as in a test that runs the service in its own process.
    let _ = match exporter.layer() {
        // One filter for all: a span that is not logged is not made.
        None => tracing_subscriber::registry().with(filter).with(lines(format, with_list)).try_init(),
        Some(spans) => {
            tracing_subscriber::registry().with(lines(format, with_list).with_filter(filter)).with(spans).try_init()
        }
    };
    exporter.report();
}

fn lines<S>(format: LogFormat, with_list: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(with_list).boxed(),
    }
}
