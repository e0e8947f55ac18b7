/// The outcome of an order line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Acknowledged: the ledger must have it exactly once.
    Applied,
    /// Refused for lack of stock: the ledger must not have it.
    Refused,
    /// Given up after answers that all said that nothing was applied: the ledger must not have it.
    Failed,
    /// Given up without knowing: the ledger may have it, at most once.
    Unknown,
}

impl Verdict {
    pub(crate) fn failed(untouched: bool) -> Self {
        if untouched { Self::Failed } else { Self::Unknown }
    }
}
