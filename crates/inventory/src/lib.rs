//! The inventory service: stock and its ledger on Postgres, under Stockade's locks and cache.

pub mod app;
pub mod attack;
pub mod cli;
pub mod config;
pub mod conservation;
mod console;
pub mod db;
#[cfg(feature = "demo")]
pub mod demo;
pub mod domain;
pub mod flash;
pub mod fleet;
pub mod health;
pub mod http;
pub mod lab;
pub mod metrics;
mod millis;
pub mod ops;
pub mod orders;
pub mod probe;
pub mod replay;
pub mod seed;
pub mod serve;
mod shell;
mod signals;
mod traces;
mod trouble;
