//! The `inventory` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    inventory::cli::main()
}
