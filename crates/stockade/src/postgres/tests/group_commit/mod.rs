//! Changes under different locks that share a transaction.

mod apart;
mod ended;
mod queue;
mod world;
