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
    /// A filter of keys of another kind can't hold the key.
    #[error("the filter holds keys of the kind `{0}`: give this key to a filter of its own kind")]
    Kind(&'static str),
}
