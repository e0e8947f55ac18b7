//! What was measured, as tables for people (Markdown, SVG) and for programs (JSON).

mod markdown;
mod page;
mod svg;
mod table;

pub(crate) use page::Report;
pub(crate) use table::{Row, Table, quantile};
