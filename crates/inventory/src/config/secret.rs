use std::fmt;

/// A text that no log, error or debug output may show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// A URL without user, password and parameters. If some of them may not have been found, only the scheme is left.
#[must_use]
pub fn shown_url(url: &Secret) -> String {
    let Some((scheme, rest)) = url.expose().split_once("://") else { return "…".to_owned() };
    let (secret, place) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
    if secret.contains(['?', '#', '/']) || place.starts_with(':') {
        return format!("{scheme}://…");
    }
    let place = place.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{place}")
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_what_may_be_secret() {
        let shown = |url: &str| shown_url(&url.to_owned().into());
        assert_eq!(shown("redis://user:hunter2@host:1/2"), "redis://host:1/2");
        assert_eq!(shown("redis-sentinel://h1,h2/name?sentinel_password=hunter2"), "redis-sentinel://h1,h2/name");
        assert_eq!(shown("rediss://host"), "rediss://host");
        for odd in [
            "redis://:hunter2",
            "redis://:hun/ter2@host",
            "redis://:hun?ter2@host",
            "redis://host?sentinel_password=hun@ter2",
            "unix:///socket?pass=hun@ter2",
        ] {
            let shown = shown(odd);
            assert!(!shown.contains("hun") && !shown.contains("ter2"), "{odd}: {shown}");
        }
        assert_eq!(shown("hunter2"), "…");
    }
}
