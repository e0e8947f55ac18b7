//! The cache on a real Redis.

mod avalanche;
mod batch;
mod bloom;
mod breakers;
mod clear;
mod filter_anew;
mod filter_runs;
mod foreign;
mod hold_off;
mod http;
mod keys;
mod late;
mod leases;
mod local;
mod outage;
mod payloads;
mod protocol;
mod refresh;
mod refused;
mod reload;
mod start;
mod stats;
mod support;
mod tags;
mod traffic;
mod warm;
