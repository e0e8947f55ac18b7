use std::{borrow::Cow, time::Duration};

use reqwest::{
    StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};
use serde::Deserialize;

use crate::domain::Sku;

/// The outcome of one attempt to apply an order line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// In the ledger; `replayed` when the service answered from its idempotency store.
    Applied { replayed: bool },
    /// The stock does not suffice: nothing was applied, and the answer is final.
    Refused,
    /// No retry helps. `untouched` when the service says that nothing was applied.
    Failed { untouched: bool },
    /// Another attempt makes sense, not before `after`.
    Retry { after: Option<Duration>, untouched: bool },
}

/// The members of a problem document that decide about a retry, and name its reason.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    pub(super) kind: String,
    applied: Option<bool>,
    retry_after_ms: Option<u64>,
}

/// The members of the answer to an applied line by which it is known: a page that some program in between answers with
/// 200 has applied nothing.
#[derive(Deserialize)]
struct Adjusted<'a> {
    sku: Cow<'a, str>,
    #[serde(rename = "fencing_token")]
    _fencing_token: u64,
}

impl Answer {
    /// No answer at all: the connection failed or the time was up. The idempotency key makes another attempt safe.
    pub(crate) const NONE: Self = Self::Retry { after: None, untouched: false };

    /// Reads the answer to a line of this SKU.
    pub(crate) fn read(sku: &Sku, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        if status == StatusCode::OK {
            return match serde_json::from_slice::<Adjusted<'_>>(body) {
                Ok(adjusted) if adjusted.sku == sku.as_str() => {
                    Self::Applied { replayed: headers.contains_key("idempotent-replayed") }
                }
                _ => Self::Failed { untouched: false },
            };
        }
        let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        // A client error says by its kind that nothing was applied. Any other answer has to say so.
        let untouched = problem.applied.map_or(status.is_client_error(), |applied| !applied);
        match status {
            StatusCode::CONFLICT if problem.kind.ends_with("/insufficient-stock") => Self::Refused,
            StatusCode::LOCKED
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
                if problem.applied != Some(true) =>
            {
                Self::Retry { after: problem.retry_after(headers), untouched }
            }
            _ => Self::Failed { untouched },
        }
    }
}

impl Problem {
    /// The exact time of the body, else the whole seconds of the header.
    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis).or_else(|| {
            let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
            Some(Duration::from_secs(seconds))
        })
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn read(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Answer {
        let headers =
            headers.iter().map(|&(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect();
        let sku = Sku::new("85123A").unwrap();
        Answer::read(&sku, StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn success_is_applied_and_a_stored_answer_is_told_apart() {
        let body = r#"{"sku":"85123A","quantity":4,"version":2,"fencing_token":17}"#;
        assert_eq!(read(200, &[], body), Answer::Applied { replayed: false });
        assert_eq!(read(200, &[("idempotent-replayed", "true")], body), Answer::Applied { replayed: true });
    }

    #[test]
    fn only_too_little_stock_is_a_refusal() {
        assert_eq!(read(409, &[], r#"{"type":"/problems/insufficient-stock","applied":false}"#), Answer::Refused);
        assert_eq!(read(409, &[], r#"{"type":"/problems/other"}"#), Answer::Failed { untouched: true });
        assert_eq!(read(404, &[], r#"{"type":"/problems/not-found"}"#), Answer::Failed { untouched: true });
    }

    #[test]
    fn the_time_of_the_body_goes_before_the_seconds_of_the_header() {
        let body = r#"{"type":"/problems/lock-timeout","applied":false,"retry_after_ms":250}"#;
        let answer = read(423, &[("retry-after", "1")], body);
        assert_eq!(answer, Answer::Retry { after: Some(Duration::from_millis(250)), untouched: true });
        let answer = read(429, &[("retry-after", "3")], "");
        assert_eq!(answer, Answer::Retry { after: Some(Duration::from_secs(3)), untouched: true });
    }

    #[test]
    fn an_unavailable_service_that_does_not_say_so_may_have_applied_it() {
        let stale = r#"{"type":"/problems/fence-stale","applied":false}"#;
        assert_eq!(read(503, &[], stale), Answer::Retry { after: None, untouched: true });
        let unknown = r#"{"type":"/problems/outcome-unknown","applied":null}"#;
        assert_eq!(read(503, &[], unknown), Answer::Retry { after: None, untouched: false });
        assert_eq!(read(502, &[], "<html>"), Answer::Retry { after: None, untouched: false });
        assert_eq!(read(500, &[], r#"{"type":"/problems/internal"}"#), Answer::Failed { untouched: false });
        let elsewhere = r#"{"sku":"B","quantity":4,"version":2,"fencing_token":17}"#;
        for (status, body) in [(204, ""), (302, ""), (200, "{}"), (200, "<html>"), (200, elsewhere)] {
            let expected = Answer::Failed { untouched: false };
            assert_eq!(read(status, &[], body), expected, "{status} {body} is no answer of the service");
        }
    }
}
