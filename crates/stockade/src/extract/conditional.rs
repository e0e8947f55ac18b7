use axum::http::HeaderValue;

/// How two entity tags are compared (RFC 9110, section 8.8.3.2).
#[derive(Clone, Copy)]
pub(super) enum Comparison {
    /// A weak tag matches nothing: for `If-Match`.
    Strong,
    /// For `If-None-Match`.
    Weak,
}

/// Whether the lines of `If-Match` or `If-None-Match` name this strong entity tag of a present value (RFC 9110,
/// sections 13.1.1 and 13.1.2).
///
/// Understands lists, several header lines and `*`. A malformed value names nothing: then a write is refused, and a
/// read answers in full.
pub(super) fn any_names<'a>(
    lines: impl IntoIterator<Item = &'a HeaderValue>,
    tag: &[u8],
    comparison: Comparison,
) -> bool {
    let mut lines = lines.into_iter().map(|line| line.as_bytes().trim_ascii());
    match lines.next() {
        Some(b"*") => lines.next().is_none(),
        first => {
            let named = first.into_iter().chain(lines).map(|line| names(line, tag, comparison));
            named.reduce(|before, named| Some(before? | named?)).flatten() == Some(true)
        }
    }
}

/// `None` if this is no list of entity tags.
fn names(mut rest: &[u8], tag: &[u8], comparison: Comparison) -> Option<bool> {
    let mut named = false;
    loop {
        // Empty list members are allowed.
        while let [b',' | b' ' | b'\t', tail @ ..] = rest {
            rest = tail;
        }
        if rest.is_empty() {
            return Some(named);
        }
        let (opaque, counts) = match rest.strip_prefix(b"W/") {
            Some(opaque) => (opaque, matches!(comparison, Comparison::Weak)),
            None => (rest, true),
        };
        // Looks for the closing quote rather than the comma, because a tag may contain commas.
        let inner = opaque.strip_prefix(b"\"")?;
        let end = inner.iter().position(|byte| *byte == b'"')?;
        let (found, tail) = opaque.split_at(end + 2);
        named |= counts && found == tag;
        rest = tail.trim_ascii_start();
        if !matches!(rest, [] | [b',', ..]) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_in_every_form_a_client_may_send() {
        let cases: &[(&[&str], bool)] = &[
            (&[], false),
            (&["\"7\""], true),
            (&["W/\"7\""], true),
            (&["\"6\", \"7\""], true),
            (&["\"6\",W/\"7\" , \"8\""], true),
            (&[", \"7\" ,"], true),
            (&["\"6\"", "\"7\""], true),
            (&["*"], true),
            (&[" * "], true),
            (&["\"6\""], false),
            (&["\"77\""], false),
            (&["7"], false),
            (&["\"7"], false),
            (&["w/\"7\""], false),
            (&["\"a,\"7\",b\""], false),
            (&["\"6\" \"7\""], false),
            (&["\"*\""], false),
            (&[""], false),
            (&["\"7\" \"8\""], false),
            (&["\"7\", 8"], false),
            (&["*, \"7\""], false),
            (&["*", "\"7\""], false),
            (&["\"7\"", "*"], false),
        ];
        for (lines, expected) in cases {
            let parsed: Vec<HeaderValue> = lines.iter().map(|line| line.parse().unwrap()).collect();
            assert_eq!(any_names(&parsed, b"\"7\"", Comparison::Weak), *expected, "{lines:?}");
            let names_it_strongly = *expected && !lines.iter().any(|line| line.contains("W/\"7\""));
            assert_eq!(any_names(&parsed, b"\"7\"", Comparison::Strong), names_it_strongly, "{lines:?}");
        }
    }
}
