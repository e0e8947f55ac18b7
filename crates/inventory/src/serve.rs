//! serve.

use std::process::ExitCode;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub async fn run(_args: Args) -> ExitCode {
    todo!()
}

/// Where the database is.
#[derive(Debug, clap::Args)]
pub struct DatabaseArgs {}

/// Migrates.
pub async fn migrate(_args: DatabaseArgs) -> ExitCode {
    todo!()
}
