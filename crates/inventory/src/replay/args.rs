use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::ValueEnum;
use reqwest::Url;

use crate::config::Secret;

/// Arguments of `inventory replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The order lines: CSV with the columns InvoiceNo, StockCode and Quantity.
    #[arg(long, env = "REPLAY_CSV", value_name = "FILE")]
    pub csv: PathBuf,
    /// Base URLs of the instances; lines go round them.
    #[arg(long, env = "REPLAY_TARGET", value_name = "URL", required = true, num_args = 1.., value_delimiter = ',', value_parser = http_url)]
    pub target: Vec<Url>,
    /// Ops URLs of the instances, to read their counts from /metrics.
    #[arg(long, env = "REPLAY_OPS", value_name = "URL", num_args = 1.., value_delimiter = ',', value_parser = http_url)]
    pub ops: Vec<Url>,
    /// How many order lines are under way at once.
    #[arg(long, env = "REPLAY_CONCURRENCY", value_name = "N", default_value = "32")]
    pub concurrency: NonZeroUsize,
    /// Order lines begun per second; without it as fast as they are answered. With it, latency counts from the moment
    /// a line was due, so that a service that stalls can't hide it.
    #[arg(long, env = "REPLAY_RATE", value_name = "LINES", value_parser = rate)]
    pub rate: Option<f64>,
    /// Send only the first N lines that move stock.
    #[arg(long, env = "REPLAY_LIMIT", value_name = "N")]
    pub limit: Option<usize>,
    /// Reads for each order line; SKUs that sell often are read often.
    #[arg(long, env = "REPLAY_BROWSE", value_name = "RATIO", default_value = "2", value_parser = not_negative)]
    pub browse: f64,
    /// Attempts after the first for each order line.
    #[arg(long, env = "REPLAY_RETRIES", value_name = "N", default_value = "12")]
    pub retries: u32,
    /// Begins no further attempt for an order line after this long. An attempt may take 15 s.
    #[arg(long, env = "REPLAY_GIVE_UP_AFTER", value_name = "DURATION", default_value = "30s", value_parser = patience)]
    pub give_up_after: Duration,
    /// The name of this run, a part of its idempotency keys. With the name of an earlier run, its lines are not applied
    /// again while the service remembers them. Default: a new name.
    #[arg(long, env = "REPLAY_RUN", value_name = "NAME", value_parser = run_name)]
    pub run: Option<String>,
    /// A file that remembers which lines are settled. With the file of an earlier run the replay goes on where that one
    /// ended, under its name, as long as the service remembers its keys (IDEMPOTENCY_TTL).
    #[arg(long, env = "REPLAY_STATE", value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// The operators' port of an instance, whose ledger is checked before and after. Needs --admin-token.
    #[arg(long, env = "REPLAY_ADMIN", value_name = "URL", requires = "admin_token", value_parser = http_url)]
    pub admin: Option<Url>,
    /// The ADMIN_TOKEN of that instance.
    #[arg(long, env = "ADMIN_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub admin_token: Option<Secret>,
    /// How to print the report.
    #[arg(long, env = "REPLAY_REPORT", value_name = "FORMAT", default_value = "text")]
    pub report: ReportFormat,
}

/// How to print a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

fn http_url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    match url.scheme() {
        "http" => Ok(url),
        "https" => Err("the replay speaks no TLS: give the http:// URL of an instance".to_owned()),
        _ => Err("give a URL with http://".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.001..=1e6).contains(&number) => Ok(number),
        _ => Err("give a number from 0.001 to 1000000".to_owned()),
    }
}

fn patience(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
    match humantime::parse_duration(text) {
        Ok(limit) if limit <= LONGEST => Ok(limit),
        Ok(_) => Err("give at most 7days".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1_000.0).contains(&number) => Ok(number),
        _ => Err("give a number from 0 to 1000".to_owned()),
    }
}

fn run_name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| text.to_owned()).ok_or_else(|| "give 1 to 64 visible ASCII characters".to_owned())
}
