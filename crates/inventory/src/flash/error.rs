use super::link::LinkError;

/// Why a flash sale makes no reservation, or does not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlashError {
    /// Nothing was reserved.
    #[error("fewer units are left")]
    SoldOut,
    /// Nothing was reserved.
    #[error("the customer would have more units than the sale allows")]
    LimitReached,
    /// A reservation of this id was made before, for another customer or another quantity.
    #[error("the reservation was made before, with another content")]
    Mismatch,
    /// Nothing was reserved.
    #[error("too many reservations wait for the database")]
    Backlog,
    /// The counter did not answer. `LinkError` says whether it may have reserved all the same.
    #[error(transparent)]
    Counter(#[from] LinkError),
}
