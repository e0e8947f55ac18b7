use super::{Made, SaleId};

/// The answer to a request for a reservation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The reservation was made.
    Reserved(Made),
    /// The reservation was made before.
    Known(Made),
    /// The sale takes no reservation any more.
    Closed,
    /// There is no counter, or none that can be used.
    Unsettled,
    /// Another sale of this SKU is the current one.
    Other(SaleId),
}
