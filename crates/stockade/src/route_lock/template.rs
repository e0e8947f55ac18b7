use std::fmt;

use axum::{
    extract::{FromRequestParts, OriginalUri, RawPathParams, rejection::RawPathParamsRejection},
    http::request::Parts,
};

use super::{Problem, Rejection};
use crate::resource::{Key, Label, escape_into, is_name};

/// A key with placeholders for path parameters, `report:{day}`.
///
/// Two different sets of values never give the same key. [`Template::parse`] ensures that: the kind is literal, and
/// between two placeholders stands a `:`, which no escaped value contains.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    label: Label,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Placeholder(String),
}

/// Why a template is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("a brace is not closed or not opened: write placeholders as `{{name}}`")]
    Brace,
    #[error("`{{{0}}}` is no placeholder: use the name of a path parameter, without `*`")]
    Placeholder(String),
    #[error("it must begin with a kind of a-z, 0-9, `_` and `-` and a `:`")]
    Kind,
    #[error("nothing follows the kind")]
    Empty,
    #[error("its text holds a `%` or a control character, which only escaped values may")]
    Literal,
    #[error("values on both sides of `{0}` could run into each other: put a `:` between the placeholders")]
    Ambiguous(String),
}

impl Template {
    pub(crate) fn parse(label: Label) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = &*label;
        while !rest.is_empty() {
            let (literal, after) = rest.split_at(rest.find(['{', '}']).unwrap_or(rest.len()));
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let Some(inner) = after.strip_prefix('{') else {
                if after.is_empty() {
                    break;
                }
                return Err(TemplateError::Brace);
            };
            let (name, after) = inner.split_once('}').ok_or(TemplateError::Brace)?;
            if name.is_empty() || name.contains(['{', '*', '/', ':', ' ']) {
                return Err(TemplateError::Placeholder(name.to_owned()));
            }
            parts.push(Part::Placeholder(name.to_owned()));
            rest = after;
        }
        check(&parts)?;
        Ok(Self { label, parts })
    }

    /// Fills in the path parameters of a request, each of which axum has percent-decoded once.
    pub(crate) async fn fill(&self, parts: &mut Parts) -> Result<Key, Rejection> {
        let params = match RawPathParams::from_request_parts(parts, &()).await {
            Ok(params) => params,
            Err(RawPathParamsRejection::InvalidUtf8InPathParam(_)) => return Err(Problem::BadRequest.into()),
            Err(error) => {
                // A template without placeholders also serves a route without parameters.
                if self.parts.iter().any(|part| matches!(part, Part::Placeholder(_))) {
                    return Err(self.misplaced(&error));
                }
                return Ok(Key::encoded(self.label.clone(), self.label.to_string())?);
            }
        };
        if !is_well_formed(parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0).path()) {
            return Err(Problem::BadRequest.into());
        }
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Placeholder(name) => {
                    // If two parameters have one name, the inner route's comes last, and counts, as for `Path`.
                    let Some((_, value)) = params.iter().filter(|(param, _)| param == name).last() else {
                        return Err(self.misplaced(&format_args!("the route has no parameter `{name}`")));
                    };
                    if value.is_empty() || value.chars().any(char::is_control) {
                        return Err(Problem::BadRequest.into());
                    }
                    escape_into(&mut text, value);
                }
            }
        }
        Ok(Key::encoded(self.label.clone(), text)?)
    }

    fn misplaced(&self, reason: &dyn fmt::Display) -> Rejection {
        tracing::error!(template = &*self.label, %reason, "the lock's template does not fit its route");
        Problem::Internal.into()
    }
}

/// Whether two hexadecimal digits follow every `%`. Axum reads any other `%` as a literal `%`, so a broken spelling
/// would lock the resource that a correct spelling names.
fn is_well_formed(path: &str) -> bool {
    let mut after_percent = path.as_bytes().split(|byte| *byte == b'%').skip(1);
    after_percent.all(|rest| matches!(rest, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()))
}

fn check(parts: &[Part]) -> Result<(), TemplateError> {
    let Some(Part::Literal(first)) = parts.first() else { return Err(TemplateError::Kind) };
    let (kind, id) = first.split_once(':').ok_or(TemplateError::Kind)?;
    if !is_name(kind) {
        return Err(TemplateError::Kind);
    }
    if id.is_empty() && parts.len() == 1 {
        return Err(TemplateError::Empty);
    }
    for (index, part) in parts.iter().enumerate() {
        let Part::Literal(literal) = part else {
            if let Some(Part::Placeholder(_)) = parts.get(index + 1) {
                return Err(TemplateError::Ambiguous(String::new()));
            }
            continue;
        };
        if literal.chars().any(|character| character == '%' || character.is_control()) {
            return Err(TemplateError::Literal);
        }
        if index > 0 && index + 1 < parts.len() && !literal.contains(':') {
            return Err(TemplateError::Ambiguous(literal.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &'static str) -> Result<Vec<Part>, TemplateError> {
        Template::parse(text.into()).map(|template| template.parts)
    }

    #[test]
    fn placeholders_and_text_are_told_apart() {
        let (literal, placeholder) = (|t: &str| Part::Literal(t.into()), |t: &str| Part::Placeholder(t.into()));
        assert_eq!(parse("report:{day}"), Ok(vec![literal("report:"), placeholder("day")]));
        assert_eq!(
            parse("r:{a}:x:{b}-end"),
            Ok(vec![literal("r:"), placeholder("a"), literal(":x:"), placeholder("b"), literal("-end")])
        );
        assert_eq!(parse("settings:global"), Ok(vec![literal("settings:global")]));
    }

    #[test]
    fn malformed_templates_are_refused_with_the_remedy() {
        let placeholder = |name: &str| Err(TemplateError::Placeholder(name.into()));
        for (text, expected) in [
            ("report:{day", Err(TemplateError::Brace)),
            ("report:day}", Err(TemplateError::Brace)),
            ("report:{{day}}", placeholder("{day")),
            ("report:{}", placeholder("")),
            ("report:{*rest}", placeholder("*rest")),
            ("", Err(TemplateError::Kind)),
            ("{kind}:x", Err(TemplateError::Kind)),
            ("report-{day}", Err(TemplateError::Kind)),
            ("Report:{day}", Err(TemplateError::Kind)),
            (":{day}", Err(TemplateError::Kind)),
            ("report:", Err(TemplateError::Empty)),
            ("report:%{day}", Err(TemplateError::Literal)),
            ("report:\n{day}", Err(TemplateError::Literal)),
            ("report:{a}{b}", Err(TemplateError::Ambiguous(String::new()))),
            ("report:{a}-{b}", Err(TemplateError::Ambiguous("-".into()))),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
