//! Locks in large numbers on real servers, and the cache of several processes. Each test prints what it measured.

#[cfg(test)]
mod batch;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod cache;
#[cfg(test)]
#[cfg(feature = "postgres")]
#[path = "../it/child.rs"]
mod child;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod group;
#[cfg(test)]
mod held;
#[cfg(test)]
mod held_on_cluster;
#[cfg(test)]
mod load;
#[cfg(test)]
#[cfg(feature = "postgres")]
#[path = "../it/looks.rs"]
mod looks;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod mixed;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod support;
