use std::{num::NonZeroUsize, path::PathBuf};

use clap::builder::BoolishValueParser;

/// Arguments of `inventory demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// End after the report: status 0 when every check holds, 1 when one does not.
    #[arg(long, env = "DEMO_EXIT", value_parser = BoolishValueParser::new())]
    pub exit: bool,
    /// Do not open the console in a browser. Without a terminal or a desktop it is never opened.
    #[arg(long, env = "DEMO_NO_OPEN", value_parser = BoolishValueParser::new())]
    pub no_open: bool,
    /// Replay only the first N order lines.
    #[arg(long, env = "DEMO_LINES", value_name = "N")]
    pub lines: Option<usize>,
    /// The order lines. Default: the file that comes with the project.
    #[arg(long, env = "DEMO_CSV", value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// How many order lines are under way at once.
    #[arg(long, env = "DEMO_CONCURRENCY", value_name = "N", default_value = "32")]
    pub concurrency: NonZeroUsize,
    /// Reads for each order line.
    #[arg(long, env = "DEMO_BROWSE", value_name = "RATIO", default_value = "2", value_parser = crate::replay::not_negative)]
    pub browse: f64,
    /// Keep the instances' logs.
    #[arg(long, env = "DEMO_KEEP", value_parser = BoolishValueParser::new())]
    pub keep: bool,
}
