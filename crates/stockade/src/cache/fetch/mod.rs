//! Fetching a value that no tier has: the lease, the load under it, and what happens after a load that failed.
//!
//! | term | meaning |
//! |---|---|
//! | [`Missing`] | the result of a read without an answer: how to [`Start`], and perhaps an expired value |
//! | [`Start`] | whether a fetch begins with a lease, or without one because the store is away |
//! | [`Want`](super::store::Want) | what the fetch asks for: the value, or the lease whatever value is stored |
//! | [`Purpose`] | what the lease is for: a read, a batch or a refresh |
//! | `Attempt` | one request for a lease, with everything that is noted before the request is sent |
//! | [`Lease`](super::store::Lease) | the reply of the store |
//! | [`Step`] | what follows from the reply; `next_step` alone decides it |
//! | [`Permit`] | how the value may be loaded: under the lease, or with nothing stored |
//! | `Leased` | a granted lease, under which a load runs |
//! | `Grant` | how one key of a batch is loaded: under a lease, or with nothing stored |
//! | [`Loader`](super::load::Loader) | runs the application's loader; `LoadFn` and `LoadIn` are its forms |
//! | [`Load`](super::load::Load) | a load that succeeded, with the [`Loaded`](super::Loaded) of the application |

mod attempt;
mod failed_load;
mod leased_load;
mod next_step;
mod one;
mod start;
mod together;
mod unleased_load;

pub(crate) use failed_load::Loads;
pub(crate) use next_step::{Permit, Purpose, Step};
pub(crate) use start::{Missing, Start};
pub(crate) use together::Flyer;
