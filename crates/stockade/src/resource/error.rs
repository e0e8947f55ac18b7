/// Why a resource has no key. Nothing was sent to any store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The kind or namespace is empty or has a character outside `[a-z0-9_-]`.
    #[error("`{0}` is not a name: use one or more of a-z, 0-9, `_` and `-`")]
    Name(String),
    /// The id is empty.
    #[error("the id is empty: a resource needs an id of one character or more")]
    Empty,
}
