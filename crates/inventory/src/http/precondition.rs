use axum::{
    extract::FromRequestParts,
    http::{
        HeaderMap, HeaderName,
        header::{IF_MATCH, IF_NONE_MATCH},
        request::Parts,
    },
};
use stockade::extract::EntityTag;
use utoipa::openapi::{ObjectBuilder, Type};

use super::{
    Problem, ProblemType,
    openapi::{Operation, Takes, header_parameter},
};

/// `If-Match` and `If-None-Match` of a write (RFC 9110, sections 13.1.1 and 13.1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Precondition {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

const MEMBER_ENDS: [char; 3] = [',', ' ', '\t'];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    Any,
    List(Vec<Tag>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tag {
    weak: bool,
    /// The tag with its quotes.
    text: String,
}

impl Precondition {
    /// Compares with the tag of the present resource, if there is one.
    pub(crate) fn check(&self, current: Option<EntityTag>) -> Result<(), Problem> {
        self.check_text(current.map(|tag| tag.to_string()).as_deref())
    }

    fn check_text(&self, current: Option<&str>) -> Result<(), Problem> {
        let held = match (&self.if_match, current) {
            (None, _) | (Some(Tags::Any), Some(_)) => true,
            (Some(_), None) => false,
            // Strong comparison: a weak tag matches nothing.
            (Some(Tags::List(tags)), Some(current)) => tags.iter().any(|tag| !tag.weak && tag.text == current),
        };
        if !held {
            return Err(Problem::precondition_failed("If-Match names another state than the present one"));
        }
        let matched = match (&self.if_none_match, current) {
            (None, _) | (Some(_), None) => false,
            (Some(Tags::Any), Some(_)) => true,
            (Some(Tags::List(tags)), Some(current)) => tags.iter().any(|tag| tag.text == current),
        };
        if matched {
            return Err(Problem::precondition_failed("If-None-Match names what is there"));
        }
        Ok(())
    }
}

impl<S: Sync> FromRequestParts<S> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Ok(Self {
            if_match: tags(&parts.headers, &IF_MATCH, "If-Match")?,
            if_none_match: tags(&parts.headers, &IF_NONE_MATCH, "If-None-Match")?,
        })
    }
}

impl Takes for Precondition {
    fn takes(operation: &mut Operation) {
        let tags = || ObjectBuilder::new().schema_type(Type::String);
        operation.parameter(header_parameter(
            "If-Match",
            tags(),
            "\"7-5d41402abc4b2a76\"",
            "Entity tags of the states to which the write may be applied, or `*`: any.",
        ));
        operation.parameter(header_parameter(
            "If-None-Match",
            tags(),
            "*",
            "Entity tags of the states to which the write may not be applied, or `*`: only where there is no stock.",
        ));
        operation.problems([ProblemType::BadRequest, ProblemType::PreconditionFailed]);
    }
}

fn tags(headers: &HeaderMap, name: &HeaderName, shown: &str) -> Result<Option<Tags>, Problem> {
    let mut tags = Vec::new();
    let mut any = false;
    let mut present = false;
    for line in headers.get_all(name) {
        present = true;
        let parsed = line.to_str().ok().and_then(|line| match line.trim() {
            "*" => {
                any = true;
                Some(Vec::new())
            }
            line => list(line),
        });
        let Some(parsed) = parsed else {
            return Err(Problem::bad_request(format!("{shown} takes `*` or entity tags such as \"7\"")));
        };
        tags.extend(parsed);
    }
    if any && !tags.is_empty() {
        return Err(Problem::bad_request(format!("{shown} takes `*` or entity tags, not both")));
    }
    Ok(match (present, any) {
        (false, _) => None,
        (true, true) => Some(Tags::Any),
        (true, false) => Some(Tags::List(tags)),
    })
}

/// A comma-separated list of entity tags; `None` when malformed or without any. Commas may stand inside a tag, and
/// empty members between them (RFC 9110, section 5.6.1.2).
fn list(line: &str) -> Option<Vec<Tag>> {
    let mut tags = Vec::new();
    let mut rest = line.trim_start_matches(MEMBER_ENDS);
    loop {
        let (weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let (text, after) = quoted.strip_prefix('"')?.split_once('"')?;
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return None;
        }
        tags.push(Tag { weak, text: format!("\"{text}\"") });
        let after = after.trim_start();
        rest = after.trim_start_matches(MEMBER_ENDS);
        if rest.is_empty() {
            return Some(tags);
        }
        if !after.starts_with(',') {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn parse(name: &HeaderName, lines: &[&str]) -> Result<Option<Tags>, Problem> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name, HeaderValue::from_str(line).unwrap());
        }
        tags(&headers, name, "If-Match")
    }

    fn if_match(line: &str) -> Precondition {
        Precondition { if_match: parse(&IF_MATCH, &[line]).unwrap(), if_none_match: None }
    }

    fn if_none_match(line: &str) -> Precondition {
        Precondition { if_match: None, if_none_match: parse(&IF_NONE_MATCH, &[line]).unwrap() }
    }

    #[test]
    fn if_match_compares_strongly() {
        assert!(if_match("\"7\"").check_text(Some("\"7\"")).is_ok());
        assert!(if_match("\"1\", \"a,b\" ,\"7\"").check_text(Some("\"7\"")).is_ok());
        assert!(if_match(", \"1\",,\t\"7\" ,").check_text(Some("\"7\"")).is_ok(), "empty members are none");
        assert!(if_match("W/\"7\"").check_text(Some("\"7\"")).is_err());
        assert!(if_match("\"7\"").check_text(Some("\"8\"")).is_err());
        assert!(if_match("*").check_text(Some("\"8\"")).is_ok());
        assert!(if_match("*").check_text(None).is_err());
        assert!(if_match("\"7\"").check_text(None).is_err());
    }

    #[test]
    fn if_none_match_compares_weakly() {
        assert!(if_none_match("*").check_text(None).is_ok());
        assert!(if_none_match("*").check_text(Some("\"1\"")).is_err());
        assert!(if_none_match("W/\"7\"").check_text(Some("\"7\"")).is_err());
        assert!(if_none_match("\"7\"").check_text(Some("\"8\"")).is_ok());
    }

    #[test]
    fn malformed_tags_are_refused() {
        for line in ["", "7", "\"7", "7\"", "\"7\" \"8\"", ",", " , ", "w/\"7\"", "*, \"7\"", "\"a b\""] {
            assert!(parse(&IF_MATCH, &[line]).is_err(), "{line}");
        }
        assert!(parse(&IF_MATCH, &["*", "\"7\""]).is_err());
        assert_eq!(parse(&IF_MATCH, &[]), Ok(None));
    }
}
