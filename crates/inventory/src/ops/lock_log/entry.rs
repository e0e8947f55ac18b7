use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::millis::now_ms;

/// An event of a lock, as the console shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Counts up from 1 in its instance.
    pub(super) id: u64,
    /// When: milliseconds since 1970.
    pub(super) at_ms: u64,
    /// `granted`, `handed_over`, `lost` or `forced`.
    pub(super) what: Cow<'static, str>,
    pub(super) resource: String,
    pub(super) mode: Option<Cow<'static, str>>,
    pub(super) token: u64,
    /// How long the holder had waited.
    pub(super) waited_ms: Option<u64>,
    /// Why it was lost.
    pub(super) reason: Option<Cow<'static, str>>,
    /// How many holders an administrator took it from.
    pub(super) holders: Option<u64>,
}

impl Entry {
    pub(super) fn new(what: &'static str, resource: &str, mode: Option<&'static str>, token: u64) -> Self {
        let (what, mode, resource) = (what.into(), mode.map(Into::into), resource.to_owned());
        Self { id: 0, at_ms: now_ms(), what, resource, mode, token, waited_ms: None, reason: None, holders: None }
    }
}
