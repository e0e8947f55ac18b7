//! The application's loader: how it is called, its limits, and the memory of its failures.

mod failing;
mod limits;
#[cfg(feature = "postgres")]
mod load_in;
mod loaded;
mod loader;
mod row_error;

pub(crate) use failing::Failing;
pub(crate) use limits::Admission;
pub use limits::Limits;
#[cfg(feature = "postgres")]
pub use load_in::LoadIn;
#[cfg(feature = "postgres")]
pub(crate) use load_in::LoadInFn;
pub use loaded::Loaded;
pub(crate) use loader::{Load, LoadBatchFn, LoadFn, Loader};
pub use row_error::RowError;
