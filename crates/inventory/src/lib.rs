//! The inventory service: stock and its ledger on Postgres, under Stockade's locks and cache.

pub mod cli;
#[cfg(feature = "demo")]
pub mod demo;
pub mod replay;
pub mod seed;
pub mod serve;
