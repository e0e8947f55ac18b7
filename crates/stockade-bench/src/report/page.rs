use std::{fs, path::Path};

use serde::Serialize;

use super::{Figures, Run, Table, Verdict, marks, svg::bars};
use crate::contender::Failure;

/// All measurements of a run, in their order.
#[derive(Serialize)]
pub(crate) struct Report {
    run: Run,
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
    pub(crate) fn of(run: Run) -> Self {
        Self { run, entries: Vec::new() }
    }

    /// Prints a table as soon as it is there, and keeps it.
    pub(crate) fn add(&mut self, table: Table) {
        self.keep(Entry::Timed(table));
    }

    /// Prints counts as soon as they are there, and keeps them.
    pub(crate) fn count(&mut self, figures: Figures) {
        self.keep(Entry::Counted(figures));
    }

    /// Prints a text as soon as it is there, and keeps it.
    pub(crate) fn note(&mut self, text: String) {
        self.keep(Entry::Note(text));
    }

    fn keep(&mut self, entry: Entry) {
        println!("{}", entry.markdown());
        self.entries.push(entry);
    }

    /// Writes `docs/benchmarks.md`, between its marks, and `docs/benchmarks.json` and `.svg`.
    pub(crate) fn write(&self, root: &Path) -> Result<(), Failure> {
        let docs = root.join("docs");
        let tables: Vec<_> = self.entries.iter().map(Entry::markdown).collect();
        let bars_of = "![Bars of what each row took](benchmarks.svg)";
        let whole = format!("{}\n\n{}\n\n{bars_of}\n\n{}", self.run, self.verdicts(), tables.join("\n"));
        let timed: Vec<_> = self.entries.iter().filter_map(Entry::timed).collect();
        marks::fill(&docs.join("benchmarks.md"), &whole)?;
        fs::write(docs.join("benchmarks.json"), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(fs::write(docs.join("benchmarks.svg"), bars(&timed)?)?)
    }

    /// How many goals were met, and a list of the others.
    fn verdicts(&self) -> String {
        let all: Vec<_> = self.entries.iter().flat_map(Entry::verdicts).collect();
        let missed = all.iter().filter(|(_, verdict)| !verdict.met);
        let missed: Vec<_> = missed.map(|(row, verdict)| format!("- {row}: {verdict}")).collect();
        let met = all.len() - missed.len();
        format!("{met} of {} goals were met.\n\n{}", all.len(), missed.join("\n")).trim_end().to_owned()
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

    /// The verdicts, each with its row.
    fn verdicts(&self) -> Vec<(String, &Verdict)> {
        match self {
            Self::Timed(Table { title, tasks, rows }) => {
                let of = |row: &'static str| format!("{title}, {tasks} at once, {row}");
                rows.iter().flat_map(|row| row.goals.iter().map(move |goal| (of(row.name), goal))).collect()
            }
            Self::Counted(Figures { title, rows, .. }) => {
                let of = |row: &str| format!("{title}, {row}");
                rows.iter().flat_map(|row| row.goals.iter().map(move |goal| (of(&row.name), goal))).collect()
            }
            Self::Note(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        goals,
        report::marks::{BEGIN, END},
    };

    #[test]
    fn a_whole_run_fills_its_page_and_lists_what_was_missed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("docs/benchmarks.md"), format!("by hand\n{BEGIN}{END}")).unwrap();
        let mut report = Report::of(Run::default());
        let names = ["HMGET of two fields, decoded", "stockade, hit in Redis"];
        report.add(Table::new(goals::HIT, 64, &names, &[vec![2.0], vec![5.0]]).unwrap());
        report.add(Table::new("without a goal", 1, &["a row"], &[vec![1.0]]).unwrap());
        let rows = vec![("stockade, Cache::get".to_owned(), vec![1.0])];
        report.count(Figures::new(goals::COLD, &["loads"], rows).unwrap());
        report.note("a note".to_owned());
        report.write(root.path()).unwrap();

        let read = |file: &str| fs::read_to_string(root.path().join(file)).unwrap();
        let page = read("docs/benchmarks.md");
        assert!(page.contains("1 of 2 goals were met."), "{page}");
        let missed =
            format!("- {}, 64 at once, stockade, hit in Redis: ≤ 1.25 × “{}”: **missed**", goals::HIT, names[0]);
        assert!(page.contains(&missed), "{page}");
        for text in ["by hand", "without a goal", goals::COLD, "a note"] {
            assert!(page.contains(text), "{text}: {page}");
        }
        let json: serde_json::Value = serde_json::from_str(&read("docs/benchmarks.json")).unwrap();
        assert_eq!(json["entries"].as_array().unwrap().len(), 4);
        assert!(read("docs/benchmarks.svg").contains(names[1]));
    }
}
