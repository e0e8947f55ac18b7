//! Locks in large numbers on real servers, and the cache of several processes. Each test prints what it measured.

#[cfg(test)]
#[cfg(all(feature = "redis", feature = "postgres"))]
mod cache;
#[cfg(test)]
#[cfg(all(feature = "redis", feature = "postgres"))]
#[path = "../it/child.rs"]
mod child;
#[cfg(test)]
#[cfg(all(feature = "sentinel", feature = "cluster"))]
mod failover;
#[cfg(test)]
#[cfg(all(feature = "sentinel", feature = "cluster"))]
mod group;
#[cfg(test)]
#[cfg(all(feature = "redis", feature = "metrics"))]
mod held;
#[cfg(test)]
#[cfg(all(feature = "sentinel", feature = "cluster"))]
mod load;
#[cfg(test)]
#[cfg(all(feature = "redis", feature = "postgres"))]
#[path = "../it/looks.rs"]
mod looks;
#[cfg(test)]
#[cfg(feature = "redis")]
mod queue;
#[cfg(test)]
#[cfg(all(feature = "cluster", feature = "metrics"))]
mod shards;
#[cfg(test)]
#[cfg(feature = "redis")]
mod support;
