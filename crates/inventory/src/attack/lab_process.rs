//! The schemes of the lab that need servers and processes of their own, as `inventory lab` plays them.

use std::{env, process::Stdio};

use serde::Deserialize;
use stockade_testbed::ChildProcess;
use tokio::process::Command;

use crate::lab::{Count, Scheme};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What all buyers of a scheme think together, in ms, as they do it one after the other: longer than a process sells
/// before it is stopped.
const THINKING: u32 = 1_000;

/// How long a scheme may sell, in seconds.
const LONGEST: &str = "3";

/// A line of its table.
#[derive(Deserialize)]
struct Line {
    scheme: Scheme,
    sold: i64,
    lost: i64,
}

/// Sells so many units under each of these schemes, one after the other. The process and all that it starts end with the
/// future.
///
/// There are two units for each buyer: a fair lock then comes to the buyers of each process within the first half.
pub(super) async fn play(units: u32) -> Result<Vec<(Scheme, Count)>, Failure> {
    let schemes: Vec<_> = Scheme::apart().map(Scheme::name).collect();
    let mut command = Command::new(env::current_exe()?);
    command.args(["lab", "--json", "--seconds", LONGEST, "--only", &schemes.join(",")]);
    command.args(["--units", &units.to_string(), "--workers", &units.div_ceil(2).to_string()]);
    command.args(["--think", &format!("{}ms", THINKING.div_ceil(units))]).stderr(Stdio::null());
    let mut lab = ChildProcess::start(command)?;
    let mut table = String::new();
    while let Some(line) = lab.next_line().await? {
        table.push_str(&line);
    }
    let lines: Vec<Line> = serde_json::from_str(&table)?;
    let count =
        |line: &Line| Count { units: units.into(), sold: line.sold, left: i64::from(units) - line.sold + line.lost };
    Ok(lines.iter().map(|line| (line.scheme, count(line))).collect())
}
