use std::io::{self, IsTerminal};

use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::config::LogFormat;

/// Sends log lines to standard error; standard output is for what the command says to its caller.
pub(super) fn install(format: LogFormat, filter: Targets) {
    // The span of a request is the only one at `info`. Where those within it are logged too, its id is in the list.
    let with_list = Layer::<Registry>::max_level_hint(&filter).is_none_or(|level| level >= LevelFilter::DEBUG);
    let lines = fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(with_list).boxed(),
    };
    // An error means that a subscriber is installed already, as in a test that runs the service in its own process.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}
