//! The schemes of the lab that need servers and processes of their own, as `inventory lab` plays them.

use std::{env, time::Duration};

use serde::Deserialize;
use stockade_testbed::ChildProcess;
use tokio::{process::Command, time::timeout};

use super::AttackError;
use crate::lab::{Count, Scheme};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What all buyers of a scheme think together, in ms, as they do it one after the other: longer than a process sells
/// before it is stopped.
const THINKING: u32 = 1_000;

/// The fewest units that each scheme sells, so that a buyer thinks for less time than passes between two stops.
const FEWEST: u32 = 10;

/// How long a scheme may sell, in seconds.
const LONGEST: &str = "3";

/// How long the process may take to end its servers.
const LAST: Duration = Duration::from_secs(5);

/// A line of its table.
#[derive(Deserialize)]
struct Line {
    scheme: Scheme,
    sold: i64,
    lost: i64,
}

/// `inventory lab`, with servers of its own. Its notes and its error go where the log of this process goes. Dropping
/// the value kills the process and its servers, and may leave the folder of a server that was just being made.
#[derive(Debug)]
pub(super) struct LabProcess {
    process: ChildProcess,
    units: u32,
}

impl LabProcess {
    /// Begins to sell so many units, and 10 at least, under each of these schemes, one after the other.
    ///
    /// There are two units for each buyer: a fair lock then comes to the buyers of each process within the first half.
    pub(super) fn start(units: u32) -> Result<Self, AttackError> {
        let units = units.max(FEWEST);
        let start = || -> Result<ChildProcess, Failure> {
            let schemes: Vec<_> = Scheme::apart().map(Scheme::name).collect();
            let mut command = Command::new(env::current_exe()?);
            command.args(["lab", "--json", "--seconds", LONGEST, "--only", &schemes.join(",")]);
            command.args(["--units", &units.to_string(), "--workers", &units.div_ceil(2).to_string()]);
            command.args(["--think", &format!("{}ms", THINKING.div_ceil(units))]);
            Ok(ChildProcess::start(command)?)
        };
        Ok(Self { process: start().map_err(AttackError::Schemes)?, units })
    }

    /// Waits until all is sold, and returns what each scheme sold.
    pub(super) async fn counts(&mut self) -> Result<Vec<(Scheme, Count)>, AttackError> {
        let lines = self.lines().await.map_err(AttackError::Schemes)?;
        let units = i64::from(self.units);
        let count = |line: &Line| Count::new(units, line.sold, units - line.sold + line.lost);
        Ok(lines.iter().map(|line| (line.scheme, count(line))).collect())
    }

    async fn lines(&mut self) -> Result<Vec<Line>, Failure> {
        let mut table = String::new();
        while let Some(line) = self.process.next_line().await? {
            table.push_str(&line);
        }
        Ok(serde_json::from_str(&table)?)
    }

    /// Has the process end its servers and itself.
    pub(super) async fn end(mut self) {
        // A process that has ended already can't be asked, and one that takes too long is killed.
        let _ = self.process.interrupt();
        let _ = timeout(LAST, self.process.wait()).await;
    }
}
