//! demo.

use std::process::ExitCode;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub async fn run(_args: Args) -> ExitCode {
    todo!()
}
