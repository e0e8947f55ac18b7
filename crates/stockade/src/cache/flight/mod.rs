//! One fetch of a key at a time in this process, shared by every caller of the key.

mod answer;
mod single_flight;

pub(crate) use answer::{Answer, Outcome, kept, lookup, lookup_at, ruled_out, unstored};
pub(crate) use single_flight::{Board, Flights, Passage, Pilot};
