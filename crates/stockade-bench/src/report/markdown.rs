use std::fmt;

use super::{Figures, Table, goal::cell};

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "**{}**, {} at once, mimalloc\n", self.title, self.tasks)?;
        writeln!(f, "| | µs each | quartiles | per second | ratio | goal |")?;
        writeln!(f, "|---|---:|---:|---:|---:|---|")?;
        for row in &self.rows {
            let [low, high] = row.quartiles;
            writeln!(
                f,
                "| {} | {:.2} | {low:.2} to {high:.2} | {:.0} | {:.2} | {} |",
                row.name,
                row.median,
                1e6 / row.median,
                row.ratio,
                cell(&row.goals)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "**{}**\n", self.title)?;
        writeln!(f, "| | {} | goal |", self.columns.join(" | "))?;
        writeln!(f, "|---|{}---|", "---:|".repeat(self.columns.len()))?;
        for row in &self.rows {
            let values: Vec<_> = row.values.iter().map(|value| number(*value)).collect();
            writeln!(f, "| {} | {} | {} |", row.name, values.join(" | "), cell(&row.goals))?;
        }
        Ok(())
    }
}

/// With the digits that mean something.
fn number(value: f64) -> String {
    if value >= 100.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
