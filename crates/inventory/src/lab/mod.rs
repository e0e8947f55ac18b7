//! The lab: one SKU, the same load, and every usual way to keep its stock right, side by side.
//!
//! Each scheme sells the same stock from a table (or a counter in Redis) of its own. Then the sales that buyers were
//! told of are compared with the units left. The schemes are written to be read: each file of `schemes` is one of them,
//! whole, with its faults. `inventory lab` plays them in several processes on private servers (feature `demo`), and the
//! service sells by them over HTTP while `LAB` is on ([`Lab`]).

#[cfg(feature = "demo")]
mod command;
#[cfg(feature = "demo")]
mod dialogue;
mod error;
mod sale;
mod scheme;
mod schemes;
mod service;
mod shelf;
mod stand;
#[cfg(feature = "demo")]
mod stops;
mod world;

#[cfg(feature = "demo")]
pub use command::{Args, run, work};
pub(crate) use error::LabError;
pub(crate) use sale::{Sale, SaleError};
pub use scheme::Scheme;
pub use service::Lab;
pub(crate) use shelf::Count;
pub(crate) use stand::{Place, dial};

type Failure = Box<dyn std::error::Error + Send + Sync>;
