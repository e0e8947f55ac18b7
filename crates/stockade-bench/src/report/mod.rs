//! The measurements, as tables for people (Markdown, SVG) and for programs (JSON).

mod figures;
mod goal;
mod markdown;
mod marks;
mod page;
mod run;
mod svg;
mod table;

pub(crate) use figures::Figures;
pub(crate) use goal::{Goal, Verdict};
pub(crate) use page::Report;
pub(crate) use run::Run;
pub(crate) use table::{Table, quantile};
