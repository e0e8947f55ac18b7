use std::{error::Error, fmt, iter};

/// An error with its sources, for the log: not every format of `tracing` writes the sources of an error.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        iter::successors(self.0.source(), |&error| error.source()).try_for_each(|error| write!(f, ": {error}"))
    }
}
