use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::config::LogFormat;

/// Sends log lines to standard error; standard output is for what the command says to its caller.
pub(super) fn install(format: LogFormat, filter: EnvFilter) {
    // The span of a request is the only one at `info`. Where those within it are logged too, its id is in the list.
    let with_list = filter.max_level_hint().is_none_or(|level| level >= LevelFilter::DEBUG);
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    // An error means that a subscriber is installed already, as in a test that runs the service in its own process.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(true).with_span_list(with_list).try_init()
        }
    };
}
