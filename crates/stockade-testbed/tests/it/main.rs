//! The testbed against the real servers.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod exec;
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
