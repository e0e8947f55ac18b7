//! Tests against a real server. Raw commands play the old system.

mod expired;
mod old_system;
mod refused;
mod release;
mod support;
