use std::fmt;

use super::Table;

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "**{}**, {} at once\n", self.title, self.tasks)?;
        writeln!(f, "| | µs each | quartiles | per second | ratio |")?;
        writeln!(f, "|---|---:|---:|---:|---:|")?;
        for row in &self.rows {
            let [low, high] = row.quartiles;
            writeln!(
                f,
                "| {} | {:.2} | {low:.2} to {high:.2} | {:.0} | {:.2} |",
                row.name,
                row.median,
                1e6 / row.median,
                row.ratio
            )?;
        }
        Ok(())
    }
}
