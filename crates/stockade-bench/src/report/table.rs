use serde::Serialize;

use super::Verdict;
use crate::{contender::Failure, goals};

/// Contenders that were measured in turns.
#[derive(Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// How many asked at once.
    pub(crate) tasks: u32,
    /// The first is the one that the others are compared with.
    pub(crate) rows: Vec<Row>,
}

/// One contender. Times are microseconds for each operation, as seen by all tasks together.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) median: f64,
    /// A quarter of the rounds were faster than the first and slower than the second.
    pub(crate) quartiles: [f64; 2],
    /// The median over the rounds of the ratio to the first contender.
    pub(crate) ratio: f64,
    pub(crate) goals: Vec<Verdict>,
}

impl Table {
    /// A table from the microseconds of each contender in each round.
    pub(crate) fn new(title: &str, tasks: u32, names: &[&'static str], times: &[Vec<f64>]) -> Result<Self, Failure> {
        let row = |(name, own): (&&'static str, &Vec<f64>)| Row {
            name,
            median: quantile(own.clone(), 0.5),
            quartiles: [0.25, 0.75].map(|part| quantile(own.clone(), part)),
            ratio: ratio(own, &times[0]),
            goals: Vec::new(),
        };
        let mut rows: Vec<_> = names.iter().zip(times).map(row).collect();
        for goal in goals::of(title, tasks) {
            let place = |wanted: &str| {
                let found = names.iter().position(|name| *name == wanted);
                found.ok_or_else(|| format!("a goal of `{title}` names the row `{wanted}`, which is not there"))
            };
            let own = place(goal.row)?;
            let reached = match goal.of {
                Some(other) => ratio(&times[own], &times[place(other)?]),
                None => rows[own].median,
            };
            rows[own].goals.push(goal.verdict(reached));
        }
        Ok(Self { title: title.to_owned(), tasks, rows })
    }
}

/// The median over the rounds of the ratio of two contenders, which is steadier than the ratio of their medians.
fn ratio(times: &[f64], others: &[f64]) -> f64 {
    quantile(times.iter().zip(others).map(|(time, other)| time / other).collect(), 0.5)
}

/// The value below which `part` of the others lie.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index into a few dozen rounds"
)]
pub(crate) fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["HMGET of two fields, decoded", "stockade, hit in Redis"];

    #[test]
    fn a_missed_goal_says_by_how_much() {
        let table = Table::new(goals::HIT, 64, &NAMES, &[vec![2.0, 4.0, 8.0], vec![5.0, 10.0, 20.0]]).unwrap();
        assert_eq!(
            table.rows[1].goals[0].to_string(),
            "≤ 1.25 × “HMGET of two fields, decoded”: **missed** with 2.50, by a factor of 2.00"
        );
    }

    #[test]
    fn a_goal_is_met_up_to_its_bound() {
        let table = Table::new(goals::HIT, 64, &NAMES, &[vec![4.0], vec![5.0]]).unwrap();
        assert_eq!(table.rows[1].goals[0].to_string(), "≤ 1.25 × “HMGET of two fields, decoded”: met with 1.25");
    }

    #[test]
    fn a_goal_whose_row_is_gone_is_an_error() {
        let renamed = Table::new(goals::HIT, 64, &[NAMES[0], "renamed"], &[vec![4.0], vec![5.0]]);
        assert!(renamed.is_err_and(|error| error.to_string().contains("stockade, hit in Redis")));
    }
}
