//! A database whose queries a test can hold, caches of several processes on it, and their reads.

mod database;
mod entries;
mod process;
mod reads;

pub(super) use database::{Bad, Database, Sku, Stock, sku};
pub(super) use entries::{entry_key, field, signed_up, stored};
pub(super) use process::{Loading, Stocks, hasty, patient, process, process_at};
pub(super) use reads::{caught_up, crowd, ended, get, held_load, one_read, quantity, race, reading, warm};
pub(super) use stockade_testbed::eventually;
