//! Tests of the scripts on a real server.

mod fuzz;
mod fuzz_scenes;
mod fuzz_state;
mod history;
mod messages;
mod operation;
mod oracle;
mod reply;
mod seen;
mod tag_table;
mod undoing;
