use std::fmt;

use serde::{Deserialize, Serialize};

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Conservation {
    /// Rows of stock looked at.
    pub skus: u64,
    /// Lines of the ledger looked at.
    pub movements: u64,
    /// The violations; empty if stock was conserved.
    pub violations: Vec<Violation>,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// The rule that is broken: the text of a [`Rule`](super::Rule).
    pub rule: String,
    /// How many rows break it.
    pub count: usize,
    /// The first of them.
    pub examples: Vec<String>,
}

impl Conservation {
    /// Whether every rule holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Conservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { skus, movements, violations } = self;
        if violations.is_empty() {
            return write!(f, "conservation: ok ({skus} SKUs, {movements} movements)");
        }
        write!(f, "conservation: VIOLATED ({skus} SKUs, {movements} movements)")?;
        for violation in violations {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}: {}", self.count, self.rule, self.examples.join("; "))?;
        if self.count > self.examples.len() {
            f.write_str("; …")?;
        }
        Ok(())
    }
}
