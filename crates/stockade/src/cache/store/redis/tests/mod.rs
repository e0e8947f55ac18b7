//! The scripts against a real server.

mod expected;
mod fuzz;
mod game;
mod heard;
mod history;
mod moves;
mod reply;
mod seen;
mod table;
