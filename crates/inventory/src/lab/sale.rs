/// What an attempt to buy one unit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sale {
    Sold,
    SoldOut,
}
