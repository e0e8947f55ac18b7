use std::time::Duration;

use axum::http::Method;

use super::{OnReject, Upload};
use crate::lock::Mode;

/// What a request in shared mode does when the lock store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreError {
    /// Answers 503, as for every request in exclusive mode.
    #[default]
    Refuse,
    /// Runs without the lock, marked as [`Degraded`](super::Degraded).
    Proceed,
}

/// When the lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Until {
    /// When the handler has returned its response.
    Handler,
    /// When the body of the response has been sent or dropped, even if its length is known.
    Body,
}

/// The settings of a [`RouteLock`](super::RouteLock), whose setters document them.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Option<Mode>,
    /// The capacity, for [`Mode::Permit`].
    pub(crate) permits: u32,
    pub(crate) wait: Duration,
    /// How long reads wait before they go on without the lock; `None` if they are refused instead.
    pub(crate) read_wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Duration,
    pub(crate) commit_timeout: Duration,
    pub(crate) upload: Upload,
    pub(crate) stream_body: bool,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) hold: Option<Until>,
    pub(crate) allow_upgrades: bool,
    pub(crate) on_reject: Option<OnReject>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: None,
            permits: 0,
            wait: Duration::from_secs(2),
            read_wait: None,
            lease: None,
            max_hold: Duration::from_secs(30),
            commit_timeout: Duration::from_secs(10),
            upload: Upload { limit: 64 * 1024, timeout: Duration::from_secs(5) },
            stream_body: false,
            on_store_error: OnStoreError::Refuse,
            hold: None,
            allow_upgrades: false,
            on_reject: None,
        }
    }
}

impl Settings {
    /// The mode for a request of this method; `None` if it takes no lock.
    pub(crate) fn mode(&self, method: &Method) -> Option<Mode> {
        if method == Method::OPTIONS {
            return None;
        }
        Some(self.mode.unwrap_or(if method.is_safe() { Mode::Read } else { Mode::Write }))
    }

    /// How long a request in `mode` waits for its turn.
    pub(crate) fn wait(&self, mode: Mode) -> Duration {
        self.read_wait.filter(|_| mode == Mode::Read).map_or(self.wait, |wait| wait.min(self.wait))
    }

    /// Whether a request in `mode` goes on when its turn does not come.
    pub(crate) fn passes(&self, mode: Mode) -> bool {
        mode == Mode::Read && self.read_wait.is_some()
    }

    /// Whether a request in `mode` goes on when the store is unavailable.
    pub(crate) fn proceeds(&self, mode: Mode) -> bool {
        mode == Mode::Read && self.on_store_error == OnStoreError::Proceed
    }
}
