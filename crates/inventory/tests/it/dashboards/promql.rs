//! The part of PromQL that finds the names in a query.

use std::collections::BTreeSet;

/// The metrics and labels that a query reads.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Query {
    pub(super) selectors: Vec<Selector>,
    /// Labels of `by (…)` and `on (…)`, over the whole query.
    pub(super) grouping: BTreeSet<String>,
}

const OPERATORS: [&str; 3] = ["and", "or", "unless"];

/// A metric with its matchers: label and pattern.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Selector {
    pub(super) metric: String,
    pub(super) matchers: Vec<(String, String)>,
}

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        let mut rest = query;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '[') {
            if rest[start..].starts_with('[') {
                rest = after(&rest[start..], ']');
                continue;
            }
            // A number with a letter, such as 1e3, would be taken for a name. No query here has one.
            let word: String = rest[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            rest = rest[start + word.len()..].trim_start();
            if ["by", "on"].contains(&word.as_str()) {
                let list = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).expect("(labels)").0;
                parsed.grouping.extend(list.split(',').map(|label| label.trim().to_owned()));
                rest = after(rest, ')');
            } else if !OPERATORS.contains(&word.as_str()) && !rest.starts_with('(') && !is_followed_by_grouping(rest) {
                let matchers = if rest.starts_with('{') {
                    let list = rest[1..].split_once('}').expect("an end of the matchers").0;
                    rest = after(rest, '}');
                    matchers(list)
                } else {
                    Vec::new()
                };
                parsed.selectors.push(Selector { metric: word, matchers });
            }
        }
        parsed
    }
}

/// An aggregation may have its grouping before its argument: `sum by (x) (…)`.
fn is_followed_by_grouping(rest: &str) -> bool {
    rest.strip_prefix("by").is_some_and(|rest| rest.trim_start().starts_with('('))
}

fn after(text: &str, end: char) -> &str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

fn matchers(list: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = list;
    while let Some((label, value)) = rest.split_once('"') {
        let (value, more) = value.split_once('"').expect("an end of the value");
        found.push((label.trim_matches([',', ' ', '=', '!', '~']).to_owned(), value.to_owned()));
        rest = more;
    }
    found
}

#[test]
fn names_are_found_and_functions_are_not_taken_for_them() {
    let query = r#"histogram_quantile(0.5, sum by (le, op) (rate(a_bucket{x=~"1|2", y!="z"}[$__rate_interval]))) / (max(b) or vector(0))"#;
    let matchers = vec![("x".to_owned(), "1|2".to_owned()), ("y".to_owned(), "z".to_owned())];
    let expected = Query {
        selectors: vec![
            Selector { metric: "a_bucket".into(), matchers },
            Selector { metric: "b".into(), matchers: Vec::new() },
        ],
        grouping: ["le".to_owned(), "op".to_owned()].into(),
    };
    assert_eq!(Query::parse(query), expected);
}
