//! The store against a real cluster.

mod suite;
