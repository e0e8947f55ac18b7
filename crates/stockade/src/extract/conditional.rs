use axum::http::HeaderValue;

/// How two entity tags are compared (RFC 9110, section 8.8.3.2).
#[derive(Clone, Copy)]
pub(super) enum Comparison {
    /// A weak tag matches nothing: for `If-Match`.
    Strong,
    /// For `If-None-Match`.
    Weak,
}

/// Whether the lines of `If-Match` or `If-None-Match` name this strong entity tag of a present value (RFC 9110, sections
/// 13.1.1 and 13.1.2).
///
/// Understands lists, several header lines and `*`. In a malformed value, everything behind the fault is ignored.
pub(super) fn any_names<'a>(
    lines: impl IntoIterator<Item = &'a HeaderValue>,
    tag: &[u8],
    comparison: Comparison,
) -> bool {
    lines.into_iter().any(|line| names(line.as_bytes(), tag, comparison))
}

fn names(value: &[u8], tag: &[u8], comparison: Comparison) -> bool {
    let mut rest = value.trim_ascii();
    if rest == b"*" {
        return true;
    }
    loop {
        // Empty list members are allowed.
        while let [b',' | b' ' | b'\t', tail @ ..] = rest {
            rest = tail;
        }
        let (opaque, matches) = match rest.strip_prefix(b"W/") {
            Some(opaque) => (opaque, matches!(comparison, Comparison::Weak)),
            None => (rest, true),
        };
        // Looks for the closing quote rather than the comma, because a tag may contain commas.
        let end = match opaque {
            [b'"', inner @ ..] => inner.iter().position(|byte| *byte == b'"'),
            _ => None,
        };
        let Some(end) = end else {
            return false;
        };
        let (found, tail) = opaque.split_at(end + 2);
        if matches && found == tag {
            return true;
        }
        let tail = tail.trim_ascii_start();
        match tail {
            [b',', ..] => rest = tail,
            _ => return false,
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
        ];
        for (lines, expected) in cases {
            let parsed: Vec<HeaderValue> = lines.iter().map(|line| line.parse().unwrap()).collect();
            assert_eq!(any_names(&parsed, b"\"7\"", Comparison::Weak), *expected, "{lines:?}");
            let names_it_strongly = *expected && !lines.iter().any(|line| line.contains("W/\"7\""));
            assert_eq!(any_names(&parsed, b"\"7\"", Comparison::Strong), names_it_strongly, "{lines:?}");
        }
    }
}
