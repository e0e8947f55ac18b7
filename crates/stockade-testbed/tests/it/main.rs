//! The testbed against the real servers.

#[cfg(test)]
mod access;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod exec;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod sentinel;
#[cfg(test)]
mod support;
#[cfg(test)]
#[cfg(feature = "tls")]
mod tls;
