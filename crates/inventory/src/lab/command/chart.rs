use std::fmt::Write as _;

use super::tally::Row;

const LINE: usize = 26;
const NAMES: f64 = 330.0;
const BARS: f64 = 360.0;
const STYLE: &str = "
    text { font: 13px system-ui, sans-serif; fill: #24292f }
    .right { fill: #2da44e } .wrong { fill: #cf222e }
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }";

/// A bar for each scheme: how fast it sells, on a logarithmic scale, and whether it sells right.
pub(super) fn chart(rows: &[Row]) -> String {
    let height = LINE * (rows.len() + 1);
    let most = rows.iter().map(|row| row.per_second).fold(10.0, f64::max).log10();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 {height}\" role=\"img\">\n\
         <title>Units sold per second by each scheme, on a logarithmic scale</title>\n<style>{STYLE}\n</style>\n\
         <text x=\"{NAMES}\" y=\"17\">units per second, logarithmic; red: lost, oversold or not shown</text>\n"
    );
    for (index, row) in rows.iter().enumerate() {
        let top = LINE * (index + 1);
        let width = (row.per_second.max(1.0).log10() / most * BARS).max(1.0);
        let class = if row.is_right() { "right" } else { "wrong" };
        let verdict = match (row.is_right(), row.stopped) {
            (true, _) => String::new(),
            (false, Some(0)) => ", no holder was stopped".to_owned(),
            (false, _) if row.sold == 0 => ", sold nothing".to_owned(),
            (false, _) => format!(", {} lost, {} oversold", row.lost, row.oversold),
        };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{NAMES}\" y=\"{}\" width=\"{width:.0}\" height=\"16\" rx=\"2\"/>\
             <text x=\"{:.0}\" y=\"{}\">{:.0}{verdict}</text>",
            NAMES - 8.0,
            top + 17,
            row.title,
            top + 4,
            NAMES + width + 8.0,
            top + 17,
            row.per_second,
        );
    }
    svg.push_str("</svg>\n");
    svg
}
