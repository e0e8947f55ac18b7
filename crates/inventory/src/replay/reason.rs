use std::borrow::Cow;

use reqwest::StatusCode;

use super::answer::Problem;

/// Why a request was not answered as it should be, for the report: the type of a problem, a status, or how the
/// connection failed.
pub(crate) type Reason = Cow<'static, str>;

/// The longest type of a problem that is taken over.
const LONGEST: usize = 40;

/// The reason of an answer.
pub(crate) fn of_answer(status: StatusCode, body: &[u8]) -> Reason {
    let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
    let name = problem.kind.strip_prefix("/problems/");
    // An answer may come from any program, so it may not write control characters to the terminal.
    let name = name.filter(|name| name.len() <= LONGEST && name.bytes().all(|b| b == b'-' || b.is_ascii_lowercase()));
    name.map_or_else(|| format!("status {}", status.as_u16()), str::to_owned).into()
}

/// The reason why there was no answer.
pub(crate) fn of_error(error: &reqwest::Error) -> Reason {
    Cow::Borrowed(if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else {
        "the connection broke off"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_type_of_the_problem_or_the_status() {
        let reason = |body: &str| of_answer(StatusCode::BAD_GATEWAY, body.as_bytes());
        assert_eq!(reason(r#"{"type":"/problems/lock-timeout","status":423}"#), "lock-timeout");
        for other in ["<html>", "{}", r#"{"type":"/problems/\u001b[31m"}"#, r#"{"type":"about:blank"}"#] {
            assert_eq!(reason(other), "status 502", "{other}");
        }
    }
}
