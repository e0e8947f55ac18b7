//! One fetch of a key at a time in this process, shared by every caller of the key.

mod single_flight;

pub(crate) use single_flight::{Answer, Board, Flights, Outcome, Passage, Pilot};
