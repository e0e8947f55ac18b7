use std::fmt;

/// How a resource is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Write,
    /// One of the permits of a semaphore, shared with as many others as its capacity allows.
    Permit,
}

impl Mode {
    /// The metric label: `read`, `write` or `permit`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Permit => "permit",
        }
    }
}

/// Writes [`Mode::as_str`].
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
