//! Values that are invalidated together: every run in which a value from before could survive.

mod loads;
mod local;
mod support;
mod tag_table;
mod values;

pub(super) use support::tagged;
