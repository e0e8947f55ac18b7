use std::{process::ExitCode, sync::Arc, time::Duration};

use rand::Rng;
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

use super::{
    Args, AuditError, Journal, Lines, Plan, ReplayError, Report, ReportFormat, RetryLimits,
    audit::{Audit, Auditor},
    client::ShopClient,
    replay,
    tally::Tally,
};
use crate::{conservation::Conservation, console, orders::Orders, traces::Exporter};

/// How long the collector may take for the last spans.
const LAST: Duration = Duration::from_secs(5);

/// Reads the file, sends its lines, prints the report. Fails if a line could not be read, failed or is unknown, or
/// the audit fails.
pub async fn run(args: Args) -> ExitCode {
    match traced(args).await {
        Ok(Outcome { lines, audit })
            if lines.failed + lines.unknown == 0
                && Orders::are_whole(&lines.skipped)
                && audit.as_ref().is_none_or(Audit::holds) =>
        {
            ExitCode::SUCCESS
        }
        Ok(_) => ExitCode::FAILURE,
        Err(error) => console::failed(&error),
    }
}

/// The results that decide the exit status.
struct Outcome {
    lines: Lines,
    audit: Option<Audit>,
}

/// Runs the command. Its spans go to a collector, if the environment names one.
async fn traced(args: Args) -> Result<Outcome, ReplayError> {
    let exporter = Exporter::from_env().map_err(ReplayError::Traces)?;
    if let Some(spans) = exporter.layer() {
        // An error means that a subscriber is installed already.
        let _ = tracing_subscriber::registry().with(spans).try_init();
    }
    let outcome = from_args(args).await;
    if !exporter.shutdown(LAST).await {
        console::note("the last spans were not sent to the collector");
    }
    outcome
}

async fn from_args(args: Args) -> Result<Outcome, ReplayError> {
    let Orders { mut lines, skipped } = Orders::load(&args.csv, None).await?;
    let new_name = || format!("{:016x}", rand::rng().random::<u64>());
    let journal = match &args.state {
        Some(path) => Some(Arc::new(Journal::open(path, args.run.as_deref(), new_name).await?)),
        None => None,
    };
    if let Some(journal) = &journal {
        journal.check(&lines)?;
    }
    lines.truncate(args.limit.unwrap_or(usize::MAX));
    if lines.is_empty() {
        return Err(ReplayError::Empty);
    }
    let all = lines.len();
    if let Some(journal) = &journal {
        lines.retain(|line| !journal.has(line));
    }
    let run = journal.as_ref().map(|journal| journal.run().to_owned()).or(args.run).unwrap_or_else(new_name);
    console::note(&format!("run {run}: {} order lines, {} of them settled before", all, all - lines.len()));
    let auditor = match (args.admin, args.admin_token) {
        (Some(url), Some(token)) => {
            let http = ShopClient::http(1, [&url]).map_err(ReplayError::Client)?;
            Some(Auditor::new(http, url, token))
        }
        _ => None,
    };
    let before = ask(auditor.as_ref()).await?;
    let report = if lines.is_empty() {
        Report::new(&[], &Tally::default(), skipped, None, Duration::ZERO)
    } else {
        let plan = Plan {
            lines: lines.into(),
            skipped,
            targets: args.target,
            ops: args.ops,
            concurrency: args.concurrency,
            rate: args.rate,
            browse: args.browse,
            limits: RetryLimits { retries: args.retries, total: args.give_up_after },
            run,
            journal,
        };
        replay(plan).await?.report
    };
    match args.report {
        ReportFormat::Text => console::out(&report.to_string()),
        ReportFormat::Json => console::out(&serde_json::json!(report).to_string()),
    }
    let lines = report.lines;
    let after = ask(auditor.as_ref()).await?;
    let new = lines.applied.saturating_sub(lines.replayed);
    let audit = before.zip(after).map(|(before, after)| Audit::new(before, after, new));
    if let Some(audit) = &audit {
        console::note(&audit.to_string());
    }
    Ok(Outcome { lines, audit })
}

async fn ask(auditor: Option<&Auditor>) -> Result<Option<Conservation>, AuditError> {
    match auditor {
        Some(auditor) => auditor.ask().await.map(Some),
        None => Ok(None),
    }
}
