use serde::Serialize;

use super::Verdict;
use crate::{contender::Failure, goals};

/// Rows of plain figures: counts, and times that are measured in another way than a table's.
#[derive(Serialize)]
pub(crate) struct Figures {
    pub(crate) title: &'static str,
    /// The names of the values, with their unit. Goals are about the first value.
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Figure>,
}

#[derive(Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
    pub(crate) goals: Vec<Verdict>,
}

impl Figures {
    pub(crate) fn new(
        title: &'static str,
        columns: &[&'static str],
        rows: Vec<(String, Vec<f64>)>,
    ) -> Result<Self, Failure> {
        let figure = |(name, values)| Figure { name, values, goals: Vec::new() };
        let mut rows: Vec<_> = rows.into_iter().map(figure).collect();
        for goal in goals::of(title, 0) {
            let row = rows.iter_mut().find(|row| row.name == goal.row);
            let row =
                row.ok_or_else(|| format!("a goal of `{title}` names the row `{}`, which is not there", goal.row))?;
            row.goals.push(goal.verdict(row.values[0]));
        }
        Ok(Self { title, columns: columns.to_vec(), rows })
    }
}
