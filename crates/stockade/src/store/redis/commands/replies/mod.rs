//! Parses the replies of the scripts into types. Any reply that a script can't give is an error.

mod acquired;
mod held;
mod inspection;
mod released;
mod server;
mod words;

pub(crate) use acquired::{Acquired, Multi};
pub(crate) use held::{Adopted, Renewed};
pub(crate) use inspection::inspection;
pub(crate) use released::{Left, forced};
pub(crate) use server::time;
pub(crate) use words::{number, token};
