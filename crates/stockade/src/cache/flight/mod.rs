//! Single flight: this process fetches a key once at a time, and every caller of the key shares that fetch.
//!
//! A *flight* is one fetch of one key. The callers that wait for it are its passengers: each boards the flight and gets
//! a [`Passage`] with a number. The task that runs the fetch owns the [`Pilot`], and lands the flight with an
//! [`Outcome`] or leaves it without one.

mod answer;
mod single_flight;

pub(crate) use answer::{Answer, Outcome, lookup, lookup_at};
pub(crate) use single_flight::{Flights, Join, Passage, Pilot};
