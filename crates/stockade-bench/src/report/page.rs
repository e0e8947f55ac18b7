use std::{fs, path::Path};

use super::{Table, svg::bars};
use crate::contender::Failure;

/// Between these two lines of the page stand the tables; the rest of it is written by hand.
const BEGIN: &str = "<!-- tables: written by `make bench` -->\n";
const END: &str = "<!-- end of the tables -->\n";

/// All tables of a run.
#[derive(Default)]
pub(crate) struct Report {
    tables: Vec<Table>,
    /// Text between tables, by the number of the table that it follows.
    notes: Vec<(usize, String)>,
}

impl Report {
    /// Prints a table as soon as it is there, and keeps it.
    pub(crate) fn add(&mut self, table: Table) {
        println!("{table}");
        self.tables.push(table);
    }

    /// Prints what is no table of contenders, and keeps it.
    pub(crate) fn note(&mut self, text: String) {
        println!("{text}");
        self.notes.push((self.tables.len(), text));
    }

    /// Writes `benchmarks.md` (between its two marks), `benchmarks.json` and `benchmarks.svg` into a folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join("benchmarks.md");
        let page = fs::read_to_string(&path)?;
        let missing = || format!("{}: the mark {BEGIN:?} or {END:?} is missing", path.display());
        let (before, rest) = page.split_once(BEGIN).ok_or_else(missing)?;
        let (_, after) = rest.split_once(END).ok_or_else(missing)?;
        fs::write(&path, format!("{before}{BEGIN}\n{}{END}{after}", self.markdown()))?;
        fs::write(folder.join("benchmarks.json"), serde_json::to_string_pretty(&self.tables)? + "\n")?;
        fs::write(folder.join("benchmarks.svg"), bars(&self.tables)?)?;
        Ok(())
    }

    fn markdown(&self) -> String {
        let mut text = String::new();
        for number in 0..=self.tables.len() {
            for (_, note) in self.notes.iter().filter(|(place, _)| *place == number) {
                text += &format!("```text\n{}\n```\n\n", note.trim_end());
            }
            if let Some(table) = self.tables.get(number) {
                text += &format!("{table}\n");
            }
        }
        text
    }
}
