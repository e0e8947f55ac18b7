use std::fmt;

use serde::Serialize;

/// The most that a row should take: in the unit of its table, or as a multiple of another row of it.
pub(crate) struct Goal {
    pub(crate) table: &'static str,
    /// How many ask at once; 0 for a table of counts.
    pub(crate) tasks: u32,
    pub(crate) row: &'static str,
    pub(crate) at_most: f64,
    pub(crate) of: Option<&'static str>,
}

/// The outcome of a goal.
#[derive(Serialize)]
pub(crate) struct Verdict {
    at_most: f64,
    of: Option<&'static str>,
    reached: f64,
    pub(crate) met: bool,
}

impl Goal {
    pub(crate) fn verdict(&self, reached: f64) -> Verdict {
        Verdict { at_most: self.at_most, of: self.of, reached, met: reached <= self.at_most }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "≤ {}", self.at_most)?;
        if let Some(of) = self.of {
            write!(f, " × “{of}”")?;
        }
        if self.met {
            return write!(f, ": met with {:.2}", self.reached);
        }
        write!(f, ": **missed** with {:.2}", self.reached)?;
        if self.at_most > 0.0 { write!(f, ", by a factor of {:.2}", self.reached / self.at_most) } else { Ok(()) }
    }
}

/// Verdicts in one cell.
pub(super) fn cell(verdicts: &[Verdict]) -> String {
    verdicts.iter().map(Verdict::to_string).collect::<Vec<_>>().join("; ")
}
