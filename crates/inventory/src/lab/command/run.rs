use std::process::ExitCode;

use clap::ValueEnum;

use super::{Args, Failure, chart::chart, scheme::Scheme, stage::Stage, table::table};
use crate::{
    console,
    signals::{INTERRUPTED, Signals},
};

/// Plays every scheme and prints the results. A signal ends it early, with all servers and their folders.
pub async fn run(args: Args) -> ExitCode {
    match play_unless_signalled(args).await {
        Ok(code) => code,
        Err(error) => console::failed(&*error),
    }
}

async fn play_unless_signalled(args: Args) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        () = signals.next() => Ok(ExitCode::from(INTERRUPTED)),
        played = Box::pin(play(args)) => played.map(|()| ExitCode::SUCCESS),
    }
}

async fn play(args: Args) -> Result<(), Failure> {
    let asked = |scheme: &&Scheme| args.only.is_empty() || args.only.contains(scheme);
    let schemes: Vec<_> = Scheme::value_variants().iter().filter(asked).copied().collect();
    console::note("starting private servers");
    let stage = Stage::start(args.clone(), &schemes).await?;
    let mut rows = Vec::with_capacity(schemes.len());
    for scheme in schemes {
        console::note(scheme.title());
        rows.push(stage.play(scheme).await?);
    }
    console::out(&if args.json { serde_json::to_string_pretty(&rows)? } else { table(&rows) });
    if let Some(path) = &args.svg {
        tokio::fs::write(path, chart(&rows)).await.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
