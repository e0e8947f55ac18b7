//! The goals of the rows. A complete run prints the verdict next to each.

use crate::report::Goal;

/// Titles of the tables that have goals, or that other places name.
pub(crate) const LOCKS: &str = "acquire and release";
pub(crate) const CACHE: &str = "read of a cached value";
pub(crate) const HIT: &str = "hit in Redis beside its floor";
pub(crate) const READS: &str = "a read over HTTP";
pub(crate) const MIXED: &str = "reads over HTTP beside writes";
pub(crate) const CHANGES: &str = "adjustments of 1,000 SKUs over HTTP";
pub(crate) const CHANGES_OF_ONE: &str = "changes of one SKU over HTTP";
pub(crate) const RESERVATIONS: &str = "reservations of one SKU over HTTP";
pub(crate) const SECTIONS: &str = "sections of one resource, over several processes";
pub(crate) const SCRIPTS: &str = "scripts of one section of that resource";
pub(crate) const TIER: &str = "a hit in the process, without a runtime, metrics counted, mimalloc";
pub(crate) const COLD: &str =
    "1,000 callers in each of 3 processes want one key that is not cached; a load takes 20 ms; mimalloc";
pub(crate) const ALLOCATIONS: &str = "allocations of one operation, metrics counted by a Prometheus recorder";

/// Throughput is compared by time: 2.5 times the throughput is 0.4 times the time.
const GOALS: &[Goal] = &[
    at(READS, 64, "stockade, GET /stock/{sku}, warm", 0.4, "one SELECT"),
    at(READS, 64, "stockade, GET /stock/{sku}, warm", 1.67, "a fixed answer, within the service's layers"),
    at(READS, 64, "stockade, the same undelegated, hits in Redis", 0.83, "one SELECT"),
    at(MIXED, 64, "stockade, one write in a hundred", 1.25, "stockade, no writes"),
    at(CHANGES, 64, "stockade, POST /stock/{sku}/adjustments", 1.25, "SELECT … FOR UPDATE, a transaction each"),
    at(RESERVATIONS, 64, "stockade, answered once Redis has it", 1.0, "one conditional UPDATE"),
    at(LOCKS, 64, "stockade, fair, fenced, renewed", 1.3, "the least that is fair and fenced"),
    at(LOCKS, 64, "stockade, fair, fenced, renewed", 3.6, "2 × PING"),
    at(LOCKS, 64, "stockade, shared", 1.2, "stockade, fair, fenced, renewed"),
    at(HIT, 64, "stockade, hit in Redis", 1.25, "HMGET of two fields, decoded"),
    at(SECTIONS, 32, "stockade, handed over in order", 1.25, "stockade, 2 waiters"),
    at(SECTIONS, 32, "stockade, handed over in order", 2.0, "one PING, alone"),
    Goal { table: SCRIPTS, tasks: 0, row: "32 waiters", at_most: 2.1, of: None },
    Goal { table: TIER, tasks: 0, row: "stockade, Cached under a shared lock", at_most: 400.0, of: None },
    Goal { table: ALLOCATIONS, tasks: 0, row: "write-lock", at_most: 40.0, of: None },
    Goal { table: ALLOCATIONS, tasks: 0, row: "memory-hit", at_most: 0.0, of: None },
    Goal { table: COLD, tasks: 0, row: "stockade, Cache::get", at_most: 1.0, of: None },
];

/// The goals of a table.
pub(crate) fn of(table: &str, tasks: u32) -> impl Iterator<Item = &'static Goal> {
    GOALS.iter().filter(move |goal| goal.table == table && goal.tasks == tasks)
}

const fn at(table: &'static str, tasks: u32, row: &'static str, at_most: f64, of: &'static str) -> Goal {
    Goal { table, tasks, row, at_most, of: Some(of) }
}
