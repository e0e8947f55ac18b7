//! Reading one key or many, and the loads that a read starts ahead of time.

mod batch;
mod patience;
mod refresh;
mod reload;

pub(crate) use patience::Patience;
pub(crate) use refresh::is_due;
