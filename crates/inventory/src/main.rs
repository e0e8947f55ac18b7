//! The `inventory` binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Threads of the runtime free memory that other threads allocated, and mimalloc is made for that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    inventory::cli::main()
}
