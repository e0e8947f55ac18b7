use std::fmt;

use reqwest::{Client, StatusCode, Url};

use crate::{config::Secret, conservation::Conservation};

/// The operators' port that a replay asks whether the ledger is right.
#[derive(Clone, Debug)]
pub(crate) struct Auditor {
    http: Client,
    url: Url,
    token: Secret,
}

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// No answer, or one that is not from the service.
    #[error("no audit from {0}: is it the operators' port of an instance?")]
    NoAnswer(Url, #[source] reqwest::Error),
    /// The service answered with an error.
    #[error("no audit from {url}: {status}{remedy}")]
    Refused {
        /// The URL that was asked.
        url: Url,
        /// The answer.
        status: StatusCode,
        /// The remedy.
        remedy: &'static str,
    },
}

impl Auditor {
    pub(crate) fn new(http: Client, mut url: Url, token: Secret) -> Self {
        url.set_path("/admin/conservation");
        Self { http, url, token }
    }

    pub(crate) async fn ask(&self) -> Result<Conservation, AuditError> {
        let no_answer = |error| AuditError::NoAnswer(self.url.clone(), error);
        let request = self.http.get(self.url.clone()).bearer_auth(self.token.expose());
        let answer = request.send().await.map_err(no_answer)?;
        let status = answer.status();
        if status.is_success() {
            return answer.json().await.map_err(no_answer);
        }
        let remedy = match status {
            StatusCode::UNAUTHORIZED => ": give its ADMIN_TOKEN by --admin-token",
            StatusCode::NOT_FOUND => ": name the operators' port of an instance that has an ADMIN_TOKEN",
            StatusCode::SERVICE_UNAVAILABLE => ": its database is away, or slower than its STATEMENT_TIMEOUT",
            _ => "",
        };
        Err(AuditError::Refused { url: self.url.clone(), status, remedy })
    }
}

/// The ledger before and after a replay.
#[derive(Debug)]
pub(crate) struct Audit {
    before: Conservation,
    after: Conservation,
    /// Lines that this replay was the first to apply, by the answers that it got.
    applied: u64,
}

impl Audit {
    pub(crate) fn new(before: Conservation, after: Conservation, applied: u64) -> Self {
        Self { before, after, applied }
    }

    /// How many acknowledged lines are certainly not in the ledger. Movements of other clients can hide some.
    fn missing(&self) -> u64 {
        self.applied.saturating_sub(self.after.movements.saturating_sub(self.before.movements))
    }

    /// Whether the ledger is right, as far as can be told.
    pub(crate) fn holds(&self) -> bool {
        self.after.holds() && self.missing() == 0
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conservation { skus, movements, violations } = &self.after;
        let word = if self.holds() { "ok" } else { "VIOLATED" };
        let more = movements.saturating_sub(self.before.movements);
        write!(f, "audit: {word} ({skus} SKUs, {movements} movements, {more} of them new)")?;
        if self.missing() > 0 {
            write!(f, "\n  {} acknowledged lines are not in the ledger", self.missing())?;
        }
        for violation in violations {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conservation::Violation;

    fn ledger(movements: u64) -> Conservation {
        Conservation { skus: 1, movements, violations: Vec::new() }
    }

    #[test]
    fn an_acknowledged_line_that_is_not_in_the_ledger_is_missed() {
        assert!(Audit::new(ledger(3), ledger(5), 2).holds());
        assert!(Audit::new(ledger(3), ledger(9), 2).holds(), "others write too");
        let lost = Audit::new(ledger(3), ledger(4), 2);
        assert!(!lost.holds());
        assert!(lost.to_string().contains("1 acknowledged lines are not in the ledger"), "{lost}");
        let violation = Violation { rule: "negative quantity".to_owned(), count: 1, examples: Vec::new() };
        let broken = Conservation { violations: vec![violation], ..ledger(5) };
        assert!(!Audit::new(ledger(3), broken, 2).holds());
    }
}
