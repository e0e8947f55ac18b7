//! Checks in the database that stock was conserved: compares the ledger with the stock, and with the outcomes that
//! clients were told.

mod check;
mod report;
mod rule;
mod verdict;

pub use check::{check, check_ledger};
pub use report::{Conservation, Violation};
pub use rule::Rule;
pub use verdict::Verdict;
