//! The inventory service: stock and its ledger on Postgres, under Stockade's locks and cache.

pub mod cli;
pub mod conservation;
mod console;
#[cfg(feature = "demo")]
pub mod demo;
pub mod orders;
pub mod replay;
pub mod seed;
pub mod serve;
