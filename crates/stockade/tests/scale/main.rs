//! Locks in large numbers on one real Redis. Each test prints what it measured.

#[cfg(test)]
#[cfg(all(feature = "redis", feature = "metrics"))]
mod held;
#[cfg(test)]
#[cfg(feature = "redis")]
mod queue;
#[cfg(test)]
#[cfg(feature = "redis")]
mod support;
