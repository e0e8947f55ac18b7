//! Reading one key or many, and the loads that a read starts ahead of time.

mod batch;
mod get;
#[cfg(feature = "postgres")]
mod get_in;
mod patience;
mod refresh;
