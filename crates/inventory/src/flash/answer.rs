use super::{Made, SaleId};

/// The answer to a request for a reservation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The reservation was made.
    Reserved(Made),
    /// The reservation was made before.
    Known(Made),
    /// The sale takes no reservation any more, or its time is over. The counter still has its reservations, and this is
    /// none of them.
    Ended,
    /// The sale takes no reservation any more, and the counter has dropped or lost those that it made.
    Closed(SaleId),
    /// As [`Answer::Closed`], and Postgres has all that the counter made.
    Stored(SaleId),
    /// There is no counter, or none that can be used.
    Unsettled,
    /// Another sale of this SKU is the current one.
    Other {
        /// The current sale.
        current: SaleId,
        /// It takes no reservation any more.
        is_closed: bool,
    },
}
