//! `inventory completions` and `inventory man`: the command line for a shell and for `man`.

use std::{io, path::PathBuf, process::ExitCode};

use clap::Command;
use clap_complete::Shell;

use crate::console;

/// Arguments of `inventory completions`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell. Its documentation says where the script goes; for bash: `source <(inventory completions bash)`.
    shell: Shell,
}

/// Arguments of `inventory man`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder that the pages are written to, `inventory.1` and one for each command. It must exist.
    dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("can't write the pages to {0}: does the folder exist?")]
struct ManError(PathBuf, #[source] io::Error);

/// Writes the script of a shell to standard output.
pub(crate) fn completions(args: &Completions, mut program: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "inventory", &mut script);
    console::out(String::from_utf8_lossy(&script).trim_end());
    ExitCode::SUCCESS
}

/// Writes the manual pages into a folder.
pub(crate) fn man(args: Man, program: Command) -> ExitCode {
    match clap_mangen::generate_to(program, &args.dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => console::failed(&ManError(args.dir, error)),
    }
}
