use std::{ops::RangeInclusive, time::Duration};

use super::keys::KeyFormat;

/// Settings of locks on several servers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The shortest and the longest pause between two rounds of a waiter.
    pub(crate) retry: RangeInclusive<Duration>,
    pub(crate) key_format: Option<KeyFormat>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { retry: Duration::from_millis(10)..=Duration::from_millis(200), key_format: None }
    }
}
