//! Output of the commands at the terminal: results on standard output, everything else on standard error.

use std::{
    error::Error,
    io::{self, Write},
    iter,
    process::ExitCode,
};

/// A line on standard output. A reader that went away is no reason to fail.
pub(crate) fn out(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// A line on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// An error and its sources on one line of standard error.
pub(crate) fn error(error: &dyn Error) {
    note(&format!("error: {}", chain(error)));
}

/// Prints the error that ended a command, and returns the exit status of the command.
pub(crate) fn failed(cause: &dyn Error) -> ExitCode {
    error(cause);
    ExitCode::FAILURE
}

/// The messages of an error and its sources. A source that its parent already shows is not repeated.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for source in iter::successors(error.source(), |&error| error.source()) {
        let source = source.to_string();
        if !text.contains(&source) {
            text.push_str(": ");
            text.push_str(&source);
        }
    }
    text
}
