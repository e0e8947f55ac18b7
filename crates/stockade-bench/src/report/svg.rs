use std::fmt::Write;

use super::Table;

const WIDTH: f64 = 860.0;
const NAMES: f64 = 330.0;
const LINE: f64 = 22.0;
const TITLE: f64 = 34.0;
const GAP: f64 = 14.0;

/// Bars of the time of each contender, each table on a scale of its own.
pub(super) fn bars(tables: &[&Table]) -> Result<String, std::fmt::Error> {
    let lines: usize = tables.iter().map(|table| table.rows.len()).sum();
    let height = length(tables.len()) * (TITLE + GAP) + length(lines) * LINE + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let mut y = GAP;
    for table in tables {
        let heading = escaped(&format!("{}, {} at once: µs each", table.title, table.tasks));
        writeln!(svg, "<text x=\"12\" y=\"{}\" font-weight=\"600\" fill=\"#1f2937\">{heading}</text>", y + 18.0)?;
        y += TITLE;
        let longest = table.rows.iter().map(|row| row.median).fold(f64::MIN_POSITIVE, f64::max);
        for row in &table.rows {
            let bar = (WIDTH - NAMES - 150.0) * row.median / longest;
            let colour = if row.name.starts_with("stockade") { "#0f766e" } else { "#94a3b8" };
            let (name, text) = (escaped(row.name), y + 14.0);
            writeln!(
                svg,
                "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\" fill=\"#334155\">{name}</text>\
                 <rect x=\"{NAMES}\" y=\"{}\" width=\"{bar:.1}\" height=\"14\" rx=\"2\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{text}\" fill=\"#334155\">{:.2} (× {:.2})</text>",
                NAMES - 8.0,
                y + 3.0,
                NAMES + bar + 6.0,
                row.median,
                row.ratio
            )?;
            y += LINE;
        }
        y += GAP;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

#[expect(clippy::cast_precision_loss, reason = "a few dozen lines")]
fn length(count: usize) -> f64 {
    count as f64
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
