//! Against a real server, with an old system played by raw commands.

mod expired;
mod old_system;
mod refused;
mod release;
mod support;
