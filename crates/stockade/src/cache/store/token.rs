use std::fmt;

/// Names one lease of a key. A value that was loaded under this token is stored only until the key is invalidated or
/// leased again. Each attempt to load makes its own token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn random() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
