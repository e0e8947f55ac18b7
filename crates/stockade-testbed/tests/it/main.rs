//! The testbed against the real servers.

#![cfg(test)]

mod access;
mod clock;
mod cluster;
mod exec;
mod leftovers;
mod ownership;
mod postgres;
mod proxy;
mod redis;
mod sentinel;
mod support;
#[cfg(feature = "tls")]
mod tls;
