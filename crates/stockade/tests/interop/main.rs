//! Our locks by quorum next to those of other programs, on the same keys of the same servers: redis-py and pottery
//! (Python), and the two versions of redlock (Node.js) that are in use.
//!
//! `make interop` installs them and runs this. It is no part of `cargo test`, which needs no other language.

#![cfg(test)]

mod crowd;
mod peer;
mod scenarios;
mod world;
