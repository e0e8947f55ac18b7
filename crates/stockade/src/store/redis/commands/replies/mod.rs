//! Parses the replies of the scripts into types. Any reply that a script can't give is an error.

mod acquired;
mod adopted;
mod forced;
mod inspection;
mod left;
mod multi;
mod renewed;
mod server;
mod words;

pub(crate) use acquired::{Acquired, Place};
pub(crate) use adopted::Adopted;
pub(crate) use forced::forced;
pub(crate) use inspection::inspection;
pub(crate) use left::Left;
pub(crate) use multi::Multi;
pub(crate) use renewed::Renewed;
pub(crate) use server::{joined, time};
pub(crate) use words::{number, text, token};
