//! Reading one key or many, the loads that a read starts ahead of time, and a look at what is cached.

mod batch;
mod get;
#[cfg(feature = "postgres")]
mod get_in;
mod inspect;
mod patience;
mod refresh;
mod reload;
