use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often the log repeats that a server takes no writes.
const REMINDER: Duration = Duration::from_secs(60);

/// What the log last said of a server that answers and takes no writes.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Option<(&'static str, Instant)>>);

impl Refusals {
    /// Says in the log why a server takes no writes, if that is what the code of its error says: at first, when the
    /// cause changes, and once a minute. Commands fail by the hundred then, and their callers do not see the code.
    pub(super) fn tell(&self, role: &'static str, code: &str) {
        let Some((code, remedy)) = explained(code) else { return };
        if self.is_news(code) {
            tracing::warn!(role, code, "Redis refuses writes: {remedy}");
        }
    }

    fn is_news(&self, code: &'static str) -> bool {
        let mut told = self.0.lock();
        let is_known = told.is_some_and(|(last, at)| last == code && at.elapsed() < REMINDER);
        if !is_known {
            *told = Some((code, Instant::now()));
        }
        !is_known
    }
}

/// Why a server takes no writes, and what helps.
fn explained(code: &str) -> Option<(&'static str, &'static str)> {
    Some(match code {
        "NOREPLICAS" => {
            ("NOREPLICAS", "it has fewer replicas than `min-replicas-to-write` asks for; bring them back or lower that")
        }
        "OOM" => ("OOM", "its memory is full; raise `maxmemory`, or find out which keys fill it"),
        "BUSY" => ("BUSY", "a script has run for longer than `busy-reply-threshold`; `SCRIPT KILL` ends it"),
        "CLUSTERDOWN" => (
            "CLUSTERDOWN",
            "part of its cluster is down; `CLUSTER INFO` says how much, and see `cluster-require-full-coverage`",
        ),
        "MISCONF" => ("MISCONF", "it can't save its data; its own log says why, often a full disk"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_named_once_a_minute_and_when_its_cause_changes() {
        let refusals = Refusals::default();
        assert!(refusals.is_news("OOM"));
        assert!(!refusals.is_news("OOM"));
        assert!(refusals.is_news("NOREPLICAS"));
        advance(REMINDER).await;
        assert!(refusals.is_news("NOREPLICAS"));
        assert!(!refusals.is_news("NOREPLICAS"));
    }

    #[test]
    fn an_error_about_one_key_is_no_refusal_of_writes() {
        assert_eq!(explained("WRONGTYPE"), None);
        assert!(explained("MISCONF").is_some());
    }
}
