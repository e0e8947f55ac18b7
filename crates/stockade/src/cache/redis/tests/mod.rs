//! The scripts against a real server.

mod fuzz;
mod seen;
