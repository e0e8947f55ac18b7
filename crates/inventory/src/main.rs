//! The `inventory` binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// What one thread of the runtime allocates another frees, which mimalloc is made for.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    inventory::cli::main()
}
