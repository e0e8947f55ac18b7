use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use clap::builder::BoolishValueParser;

use super::scheme::Scheme;

/// Arguments of `inventory lab`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How many buyers ask at once, spread over four processes.
    #[arg(long, env = "LAB_WORKERS", value_name = "N", default_value = "32")]
    pub workers: NonZeroU32,
    /// How long each scheme sells, unless it is sold out before.
    #[arg(long, env = "LAB_SECONDS", value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// How many units each scheme has to sell.
    #[arg(long, env = "LAB_UNITS", value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub units: u32,
    /// How long a buyer thinks between its read and its write, in the schemes that do both: 0 ms to 1 s.
    #[arg(long, env = "LAB_THINK", value_name = "DURATION", default_value = "0ms", value_parser = think)]
    pub think: Duration,
    /// Only these schemes.
    #[arg(long, env = "LAB_ONLY", value_name = "SCHEME", value_delimiter = ',')]
    pub only: Vec<Scheme>,
    /// Print JSON instead of the table.
    #[arg(long, env = "LAB_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Draw the rates into this file.
    #[arg(long, env = "LAB_SVG", value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn think(text: &str) -> Result<Duration, String> {
    let think = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if think <= Duration::from_secs(1) { Ok(think) } else { Err("at most 1s".to_owned()) }
}
