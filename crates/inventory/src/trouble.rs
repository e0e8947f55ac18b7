//! A trouble that goes on, and how often the log says so.

use std::{error::Error, time::Duration};

use tokio::time::Instant;

use crate::console;

/// How often the log repeats a trouble that goes on.
pub(crate) const REMINDER: Duration = Duration::from_secs(60);

/// What the log last said of something that is tried again and again.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Option<Told>);

#[derive(Debug)]
struct Told {
    cause: String,
    at: Instant,
}

impl Trouble {
    /// Whether the log should name this failure: it is the first one, has another cause than the last one that was
    /// named, or that one was named more than 60 s ago.
    pub(crate) fn is_news(&mut self, error: &dyn Error) -> bool {
        let cause = console::chain(error);
        let is_known = self.0.as_ref().is_some_and(|told| told.cause == cause && told.at.elapsed() <= REMINDER);
        if !is_known {
            self.0 = Some(Told { cause, at: Instant::now() });
        }
        !is_known
    }

    /// Ends the trouble. Returns whether there was one.
    pub(crate) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_named_once_a_minute_and_when_its_cause_changes() {
        let [refused, reset] = ["refused", "reset"].map(io::Error::other);
        let mut trouble = Trouble::default();
        assert!(!trouble.end());
        assert!(trouble.is_news(&refused));
        assert!(!trouble.is_news(&refused));
        assert!(trouble.is_news(&reset));
        advance(REMINDER).await;
        assert!(!trouble.is_news(&reset));
        advance(Duration::from_millis(1)).await;
        assert!(trouble.is_news(&reset));
        assert!(!trouble.is_news(&reset));
        assert!(trouble.end());
        assert!(trouble.is_news(&reset));
    }
}
