//! The ownerships of this process.
//!
//! - [`table`]: finds the ownership that a reply or a message of the server is about.
//! - [`renewal`]: renews leases, in scripts of up to 100 resources.
//! - [`change`]: continues an ownership in another mode or in another process.

mod change;
mod renewal;
mod table;

pub(crate) use table::HeldTable;
