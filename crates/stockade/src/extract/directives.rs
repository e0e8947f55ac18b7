use axum::http::{HeaderMap, header::CACHE_CONTROL};

/// Whether `Cache-Control` holds the directive `no-cache` (RFC 9111, section 5.2.1.4).
pub(super) fn no_cache(headers: &HeaderMap) -> bool {
    let mut members = headers.get_all(CACHE_CONTROL).iter().flat_map(|line| members(line.as_bytes()));
    members.any(|member| member.trim_ascii().eq_ignore_ascii_case(b"no-cache"))
}

/// The members of a list; a comma within quotes ends none.
fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    line.split(move |byte| {
        let ends = *byte == b',' && !quoted;
        if escaped {
            escaped = false;
        } else {
            escaped = *byte == b'\\' && quoted;
            quoted ^= *byte == b'"';
        }
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_directive_itself_counts() {
        let cases: &[(&[&str], bool)] = &[
            (&[], false),
            (&["no-cache"], true),
            (&["No-Cache"], true),
            (&["max-age=0, no-cache"], true),
            (&["no-store,no-cache ,"], true),
            (&["no-store", "no-cache"], true),
            (&["x=\"a,b\", no-cache"], true),
            (&["x=\"a\\\",\", no-cache"], true),
            (&["max-age=0"], false),
            (&["no-store"], false),
            (&["no-cache=\"age\""], false),
            (&["no-cached"], false),
            (&["x-no-cache"], false),
            (&["x=\"a, no-cache, b\""], false),
            (&["x=\"\\\", no-cache, b\""], false),
            (&["\"no-cache\""], false),
            (&[""], false),
        ];
        for (lines, expected) in cases {
            let mut headers = HeaderMap::new();
            for line in *lines {
                headers.append(CACHE_CONTROL, line.parse().unwrap());
            }
            assert_eq!(no_cache(&headers), *expected, "{lines:?}");
        }
    }
}
