//! A trouble that goes on, and how often the log says so.

use std::time::Duration;

use tokio::time::Instant;

/// How often the log repeats a trouble that goes on.
pub(crate) const REMINDER: Duration = Duration::from_secs(60);

/// When the log last said that something fails that is tried again and again.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Option<Instant>);

impl Trouble {
    /// Whether the log should name a failure: it is the first one, or the last that was named is 60 s ago.
    pub(crate) fn is_news(&mut self) -> bool {
        let is_news = self.0.is_none_or(|told| told.elapsed() >= REMINDER);
        if is_news {
            self.0 = Some(Instant::now());
        }
        is_news
    }

    /// Ends the trouble. Returns whether there was one.
    pub(crate) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_named_once_a_minute() {
        let mut trouble = Trouble::default();
        assert!(!trouble.end());
        assert!(trouble.is_news());
        advance(REMINDER - Duration::from_millis(1)).await;
        assert!(!trouble.is_news());
        advance(Duration::from_millis(1)).await;
        assert!(trouble.is_news());
        assert!(!trouble.is_news());
        assert!(trouble.end());
        assert!(trouble.is_news());
    }
}
