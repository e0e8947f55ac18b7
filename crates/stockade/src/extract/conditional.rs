use axum::http::HeaderValue;

/// Whether the lines of `If-None-Match` name this entity tag, by weak comparison (RFC 9110, sections 8.8.3.2 and
/// 13.1.2). If so, the client already has the value.
///
/// Understands lists, several header lines and `*`. In a malformed value, everything behind the fault is ignored.
pub(super) fn any_names<'a>(lines: impl IntoIterator<Item = &'a HeaderValue>, tag: &[u8]) -> bool {
    lines.into_iter().any(|line| names(line.as_bytes(), tag))
}

fn names(value: &[u8], tag: &[u8]) -> bool {
    let mut rest = value.trim_ascii();
    if rest == b"*" {
        return true;
    }
    loop {
        // Empty list members are allowed.
        while let [b',' | b' ' | b'\t', tail @ ..] = rest {
            rest = tail;
        }
        let opaque = rest.strip_prefix(b"W/").unwrap_or(rest);
        // Looks for the closing quote rather than the comma, because a tag may contain commas.
        let end = match opaque {
            [b'"', inner @ ..] => inner.iter().position(|byte| *byte == b'"'),
            _ => None,
        };
        let Some(end) = end else {
            return false;
        };
        let (found, tail) = opaque.split_at(end + 2);
        if found == tag {
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
            assert_eq!(any_names(&parsed, b"\"7\""), *expected, "{lines:?}");
        }
    }
}
