//! Names that several values share, to be invalidated together.
//!
//! The server counts invalidations of tags. A lease notes the count before its load. The count at which a tag was last
//! invalidated is its *stamp*, and a value is valid while no tag of it has a stamp above the noted count. All stamps of
//! a cache are in one key, so they are lost as a whole or not at all. If they are lost, or the run of the server
//! changes, no value with tags is valid.
//!
//! Old stamps are dropped by raising a floor: tagged values older than the floor are treated as stale. Normally no such
//! value is left by then. If the clock jumped, or the table is full (65,536 tags), some values are reloaded early.
//!
//! The lease of an early load keeps its count next to that of the present value. If it replaced that count, a value
//! whose tag was invalidated before the lease would be valid again.

mod tag;
mod tag_ticks;

pub use tag::TagError;
pub(crate) use tag::{Tag, Tags};
pub(crate) use tag_ticks::TagTicks;
