//! One fetch of a key at a time in this process, shared by every caller of the key.

mod answer;
mod single_flight;

pub(crate) use answer::{Answer, Outcome, lookup, lookup_at};
pub(crate) use single_flight::{Flights, Join, Passage, Pilot};
