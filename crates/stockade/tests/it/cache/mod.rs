//! The cache on a real Redis.

mod batch;
mod bloom;
mod hold_off;
mod http;
mod late;
mod local;
mod outage;
mod protocol;
mod refresh;
mod support;
mod traffic;
mod warm;
