use std::{fs, path::Path};

use serde::Serialize;

use super::{Figures, Table, svg::bars};
use crate::contender::Failure;

/// Between these two lines of the page stand the tables; the rest of it is written by hand.
const BEGIN: &str = "<!-- tables: written by `make bench` -->\n";
const END: &str = "<!-- end of the tables -->\n";

/// All that a run has measured, in its order.
#[derive(Default)]
pub(crate) struct Report {
    entries: Vec<Entry>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Timed(Table),
    Counted(Figures),
    Note(String),
}

impl Report {
    /// Prints a table as soon as it is there, and keeps it.
    pub(crate) fn add(&mut self, table: Table) {
        self.keep(Entry::Timed(table));
    }

    /// The same for what was counted.
    pub(crate) fn count(&mut self, figures: Figures) {
        self.keep(Entry::Counted(figures));
    }

    /// The same for what is no table.
    pub(crate) fn note(&mut self, text: String) {
        self.keep(Entry::Note(text));
    }

    fn keep(&mut self, entry: Entry) {
        println!("{}", entry.markdown());
        self.entries.push(entry);
    }

    /// Writes `benchmarks.md` (between its two marks), `benchmarks.json` and `benchmarks.svg` into a folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join("benchmarks.md");
        let page = fs::read_to_string(&path)?;
        let missing = || format!("{}: the mark {BEGIN:?} or {END:?} is missing", path.display());
        let (before, rest) = page.split_once(BEGIN).ok_or_else(missing)?;
        let (_, after) = rest.split_once(END).ok_or_else(missing)?;
        let tables: Vec<_> = self.entries.iter().map(Entry::markdown).collect();
        fs::write(&path, format!("{before}{BEGIN}\n{}\n{END}{after}", tables.join("\n")))?;
        fs::write(folder.join("benchmarks.json"), serde_json::to_string_pretty(&self.entries)? + "\n")?;
        let timed: Vec<_> = self.entries.iter().filter_map(Entry::timed).collect();
        fs::write(folder.join("benchmarks.svg"), bars(&timed)?)?;
        Ok(())
    }
}

impl Entry {
    fn markdown(&self) -> String {
        match self {
            Self::Timed(table) => table.to_string(),
            Self::Counted(figures) => figures.to_string(),
            Self::Note(text) => format!("```text\n{}\n```\n", text.trim_end()),
        }
    }

    fn timed(&self) -> Option<&Table> {
        if let Self::Timed(table) = self { Some(table) } else { None }
    }
}
