//! The scripts, each of which is one step on the server.

use std::sync::LazyLock;

use deadpool_redis::redis::Script;

/// Decides a reservation.
pub(super) static RESERVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/run.lua"), include_str!("lua/reserve.lua"))));

/// Asks whether a counter can be used, and begins to make it if it can't.
pub(super) static ENTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/run.lua"), include_str!("lua/enter.lua"))));

/// Fills a table of a counter that is being made.
pub(super) static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/load.lua")));

/// Opens a counter that was made.
pub(super) static INSTALL: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/run.lua"), include_str!("lua/install.lua"))));

/// Lets nothing into a sale any more, and drops its data once Postgres has all entries.
pub(super) static CLOSE: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/run.lua"), include_str!("lua/close.lua"))));

/// Removes entries that Postgres has.
pub(super) static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/settle.lua")));

/// Reads a counter.
pub(super) static VIEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/run.lua"), include_str!("lua/view.lua"))));
