use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often the log repeats that a server refuses something.
const REMINDER: Duration = Duration::from_secs(60);

/// When the log last said why a server that answers takes no writes, or forbids an operation: by the code or by the
/// operation. Commands fail by the hundred then, and their callers do not see the code.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<&'static str, Instant>>);

impl Refusals {
    /// Says in the log why a server takes no writes, if that is what the code of its error says: once a minute for each
    /// code.
    pub(super) fn tell(&self, role: &'static str, code: &str) {
        let Some((code, remedy)) = explained(code) else { return };
        if self.is_news(code) {
            tracing::warn!(role, code, "Redis refuses writes: {remedy}");
        }
    }

    /// Says in the log that a server forbids this user an operation: once a minute for each operation.
    pub(super) fn tell_forbidden(&self, op: &'static str) {
        if self.is_news(op) {
            tracing::error!(
                op,
                "Redis refuses this user a command (NOPERM): grant what the documentation of `stockade::redis` lists"
            );
        }
    }

    fn is_news(&self, cause: &'static str) -> bool {
        let mut told = self.0.lock();
        let is_known = told.get(cause).is_some_and(|at| at.elapsed() < REMINDER);
        if !is_known {
            told.insert(cause, Instant::now());
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
    async fn each_cause_of_refusals_is_named_once_a_minute() {
        let refusals = Refusals::default();
        assert!(refusals.is_news("OOM"));
        assert!(!refusals.is_news("OOM"));
        assert!(refusals.is_news("NOREPLICAS"));
        assert!(!refusals.is_news("OOM"), "two causes in turn");
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
