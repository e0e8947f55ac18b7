//! The command line.

use std::{process::ExitCode, time::Duration};

use clap::{CommandFactory, Parser, Subcommand};
use tokio::runtime::Runtime;

use crate::{console, health, replay, seed, serve, shell};
#[cfg(feature = "demo")]
use crate::{demo, lab};

/// An inventory service on Postgres, with locks and cache on Redis.
#[derive(Debug, Parser)]
#[command(name = "inventory", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve HTTP.
    Serve(Box<serve::Args>),
    /// Ask the instance on this host whether it is ready: status 0 or 1.
    Health(health::Args),
    /// Bring the database schema up to date.
    Migrate(serve::DatabaseArgs),
    /// Rebuild the filter of the SKUs that exist.
    Filter(serve::FilterArgs),
    /// Create stock from a file of order lines.
    Seed(seed::Args),
    /// Send order lines to running instances and report.
    Replay(replay::Args),
    /// Print the script that lets a shell complete this command line.
    Completions(shell::Completions),
    /// Write the manual pages.
    Man(shell::Man),
    /// Start private servers and two instances, replay order lines, report, serve until Ctrl-C.
    #[cfg(feature = "demo")]
    Demo(demo::Args),
    /// Sell one SKU under every usual scheme, side by side: sales lost, units oversold, and speed.
    #[cfg(feature = "demo")]
    Lab(lab::Args),
    /// A process of buyers of `inventory lab`.
    #[cfg(feature = "demo")]
    #[command(hide = true)]
    LabWorker,
    /// The process that the attack `killed-holder` kills; takes the settings of `serve`.
    #[cfg(feature = "demo")]
    #[command(hide = true)]
    HoldLocks(Box<serve::Args>),
}

/// Runs the command that the arguments of this process name. The whole program is here: a binary that awaited it would
/// compile every future below it a second time.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let is_service = matches!(cli.command, Command::Serve(_));
    match Runtime::new() {
        Ok(runtime) => {
            let code = runtime.block_on(cli.run());
            // Dropped, a runtime waits for all that blocks: for servers whose folders are to be removed, as it should,
            // but also for a look-up of a name that hangs.
            if is_service {
                runtime.shutdown_timeout(Duration::from_secs(1));
            }
            code
        }
        Err(error) => console::failed(&error),
    }
}

impl Cli {
    /// Runs the command to its end.
    async fn run(self) -> ExitCode {
        match self.command {
            Command::Serve(args) => serve::run(&args).await,
            Command::Health(args) => health::run(args).await,
            Command::Migrate(args) => serve::migrate(args).await,
            Command::Filter(args) => serve::rebuild_filter(args).await,
            Command::Seed(args) => seed::run(args).await,
            Command::Replay(args) => replay::run(args).await,
            Command::Completions(args) => shell::completions(&args, Self::command()),
            Command::Man(args) => shell::man(args, Self::command()),
            #[cfg(feature = "demo")]
            Command::Demo(args) => demo::run(args).await,
            #[cfg(feature = "demo")]
            Command::Lab(args) => lab::run(args).await,
            #[cfg(feature = "demo")]
            Command::LabWorker => lab::work().await,
            #[cfg(feature = "demo")]
            Command::HoldLocks(args) => serve::hold_locks(&args).await,
        }
    }
}
