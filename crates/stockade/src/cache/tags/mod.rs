//! Names that values share and are invalidated by together.
//!
//! The server counts invalidations of tags. A lease notes the count before its load, and a value holds while none of
//! its tags has a later count (its *stamp*). All stamps of a cache lie in one key and are lost as a whole: then, and
//! after a change of run, no value with tags holds.
//!
//! Old stamps are dropped by raising a floor: tagged values older than the floor are treated as stale. Normally no such
//! value is left by then. If the clock jumped, or the table is full (65,536 tags), some values are reloaded early.
//!
//! The lease of an early load keeps its count next to that of the present value. In its place it would make a value
//! young that a tag has outdated.

mod tag;
mod tag_ticks;

pub use tag::TagError;
pub(crate) use tag::{Tag, Tags};
pub(crate) use tag_ticks::TagTicks;
