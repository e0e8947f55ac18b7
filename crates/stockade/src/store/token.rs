use std::fmt;

/// A fencing token: strictly increasing per resource in grant order, below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// The first value that a Lua number, and so Redis, can no longer tell from its neighbour.
    pub const LIMIT: u64 = 1 << 53;

    /// The highest token.
    pub const MAX: Self = Self(Self::LIMIT - 1);

    /// Makes a token of this value. `None` from [`Token::LIMIT`] on.
    #[must_use]
    pub fn new(value: u64) -> Option<Self> {
        (value < Self::LIMIT).then_some(Self(value))
    }

    /// Its value.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
