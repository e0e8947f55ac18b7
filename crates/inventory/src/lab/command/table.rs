use std::{fmt::Write as _, iter};

use super::tally::Row;

const HEAD: [&str; 11] = [
    "scheme",
    "sold",
    "lost updates",
    "oversold",
    "units/s",
    "p50 ms",
    "p99 ms",
    "Redis commands per unit",
    "SQL statements per unit",
    "longest wait / median",
    "refused",
];

/// The rows as Markdown, in columns that a terminal shows straight.
pub(super) fn table(rows: &[Row]) -> String {
    let head = HEAD.map(str::to_owned);
    let cells: Vec<_> = iter::once(head).chain(rows.iter().map(cells)).collect();
    let widths: Vec<_> = (0..HEAD.len()).map(|column| cells.iter().map(|row| width(&row[column])).max()).collect();
    let mut text = String::new();
    for (line, row) in cells.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let width = width.unwrap_or(0);
            // The names stand left, numbers right.
            let _ = if column == 0 { write!(text, "| {cell:<width$} ") } else { write!(text, "| {cell:>width$} ") };
        }
        text.push_str("|\n");
        if line == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width.unwrap_or(0) + 1);
                let _ = if column == 0 { write!(text, "|{dashes}-") } else { write!(text, "|{dashes}:") };
            }
            text.push_str("|\n");
        }
    }
    for row in rows {
        let _ = match row.stopped {
            Some(0) => write!(
                text,
                "\n{}: no holder was stopped, so this shows nothing: use 2 --workers or more, and so many --units that \
                 they sell for a second",
                row.title
            ),
            Some(stopped) => write!(text, "\n{}: stopped {stopped} times", row.title),
            None => Ok(()),
        };
    }
    for row in rows.iter().filter(|row| row.refused > 0) {
        let _ = write!(text, "\n{}: {} attempts got no unit", row.title, row.refused);
        if let Some(refusal) = &row.refusal {
            let _ = write!(text, ", such as: {refusal}");
        }
    }
    text
}

fn cells(row: &Row) -> [String; 11] {
    [
        row.title.to_owned(),
        row.sold.to_string(),
        row.lost.to_string(),
        row.oversold.to_string(),
        format!("{:.0}", row.per_second),
        format!("{:.1}", row.p50),
        format!("{:.1}", row.p99),
        format!("{:.1}", row.commands),
        format!("{:.1}", row.statements),
        format!("{:.1}", row.longest),
        row.refused.to_string(),
    ]
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}
