//! Locks in large numbers on real servers, and the cache of several processes. Each test prints what it measured.

#![cfg(test)]

mod batch;
#[cfg(feature = "postgres")]
mod cache;
#[cfg(feature = "postgres")]
#[path = "../it/child.rs"]
mod child;
mod failover;
mod group;
mod held;
mod held_on_cluster;
mod load;
#[cfg(feature = "postgres")]
#[path = "../it/looks.rs"]
mod looks;
#[cfg(feature = "postgres")]
mod mixed;
mod queue;
mod support;
