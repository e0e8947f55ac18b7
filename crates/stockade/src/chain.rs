use std::{error::Error, fmt, iter};

/// An error with its sources, for the log: not every format of `tracing` writes the sources of an error. A source that
/// its parent shows already is not repeated.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        for source in iter::successors(self.0.source(), |&error| error.source()).map(ToString::to_string) {
            if !text.contains(&source) {
                text.extend([": ", source.as_str()]);
            }
        }
        f.write_str(&text)
    }
}
