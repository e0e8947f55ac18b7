//! Names that values share and are invalidated by together.

mod tag;
mod tag_ticks;

pub use tag::TagError;
pub(crate) use tag::{Tag, Tags};
pub(crate) use tag_ticks::TagTicks;
