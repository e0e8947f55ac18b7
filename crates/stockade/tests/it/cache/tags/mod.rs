//! Values that are invalidated together: every run in which one from before could outlive that.

mod loads;
mod local;
mod support;
mod tag_table;
mod values;

pub(super) use support::tagged;
