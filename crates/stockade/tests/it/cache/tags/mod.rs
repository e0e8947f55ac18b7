//! Values that are invalidated together by a tag, in every case in which an old value could survive.

mod loads;
mod local;
mod support;
mod tag_table;
mod values;

pub(super) use support::tagged;
