use std::time::Duration;

use tokio::time::Instant;

use super::Settings;

/// By when a handler must have ended: as the settings of its layer say, and those of the layers further out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The end of the longest hold.
    pub(crate) deadline: Instant,
    /// The last moment for the answer of a handler whose commit was sent before the deadline.
    answer_by: Instant,
}

impl Limits {
    pub(crate) fn new(entered: Instant, settings: &Settings) -> Self {
        let deadline = entered + bounded(settings.max_hold);
        Self { deadline, answer_by: deadline + bounded(settings.commit_timeout) }
    }

    /// The earlier ones of both.
    pub(crate) fn within(self, outer: Self) -> Self {
        Self { deadline: self.deadline.min(outer.deadline), answer_by: self.answer_by.min(outer.answer_by) }
    }

    /// Until when to wait from now on for the answer of a handler whose commit was sent.
    pub(crate) fn answer_from_now(self, settings: &Settings) -> Instant {
        self.answer_by.min(Instant::now() + bounded(settings.commit_timeout))
    }
}

/// Thirty years stand for no limit: a clock cannot show every `Duration`.
fn bounded(limit: Duration) -> Duration {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    limit.min(NEVER)
}
