//! The `inventory` binary.

use std::process::ExitCode;

use clap::Parser;
use inventory::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run().await
}
