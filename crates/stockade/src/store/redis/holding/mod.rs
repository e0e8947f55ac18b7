//! What this process holds.
//!
//! - [`table`]: all ownerships, for what the server says about them.
//! - [`renewal`]: leases extended in scripts of up to 100.
//! - [`change`]: an ownership that goes on in another mode or in another process.

mod change;
mod renewal;
mod table;

pub(crate) use table::HeldTable;
