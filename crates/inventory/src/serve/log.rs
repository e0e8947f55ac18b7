use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Sends log lines to standard error; standard output is for what the command says to its caller.
pub(super) fn install(format: LogFormat, filter: EnvFilter) {
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    // An error means that a subscriber is installed already, as in a test that runs the service in its own process.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init(),
    };
}
