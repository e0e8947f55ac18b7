//! Fetching a value that no tier has: the lease, the load under it, and what becomes of a load that failed.
//!
//! | word | is |
//! |---|---|
//! | [`Missing`] | what a read found that did not answer it: how to [`Start`], and perhaps an expired value |
//! | [`Start`] | with a lease or, where the store is away, without |
//! | [`Want`](super::store::Want) | what the lease is asked for: the value or, over any value, the load |
//! | [`Purpose`] | who asks: a read, a batch, a reload, a refresh |
//! | `Attempt` | one request for a lease, with all that is noted before it is sent |
//! | [`Lease`](super::store::Lease) | the reply of the store |
//! | [`Step`] | what that reply means for the purpose; `next_step` is the only place that says so |
//! | [`Permit`] | how the value may be loaded: under the lease, or with nothing stored |
//! | [`Leased`] | a granted lease, under which a load runs |
//! | `Grant` | the same for one key of a batch |
//! | [`Loader`](super::load::Loader) | runs the application's loader; `LoadFn` and `LoadIn` are its forms |
//! | [`Load`](super::load::Load) | a load that ended well, with the [`Loaded`](super::Loaded) of the application |

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
pub(crate) use start::{Leased, Missing, Start};
pub(crate) use together::Flyer;
