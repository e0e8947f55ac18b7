use crate::resource::{Key, KeyError, Label, Resource};

/// The label of keys that an administrator types: what was typed must not become a metric label.
const ADMIN: Label = Label::Borrowed("admin");

/// Names a lock to look at or to force: a reference to a [`Resource`], or the encoded key as
/// [`Locks::list`](super::Locks::list) shows it, as text.
///
/// ```
/// # use stockade::{Locks, Resource};
/// # struct Job(&'static str);
/// # impl Resource for Job {
/// #     const KIND: &'static str = "job";
/// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.into() }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), stockade::lock::LockError> {
/// let locks = Locks::memory();
/// let guard = locks.write(&Job("nightly")).tag("backup").acquire().await?;
/// assert_eq!(locks.inspect(&Job("nightly")).await?.holders[0].tag, "backup");
/// assert_eq!(locks.inspect("job:nightly").await?.holders[0].token, Some(guard.token()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LockName(pub(super) Result<Key, KeyError>);

impl<R: Resource + ?Sized> From<&R> for LockName {
    fn from(resource: &R) -> Self {
        Self(Key::of(resource))
    }
}

impl From<&str> for LockName {
    fn from(encoded: &str) -> Self {
        encoded.to_owned().into()
    }
}

impl From<&String> for LockName {
    fn from(encoded: &String) -> Self {
        encoded.clone().into()
    }
}

impl From<String> for LockName {
    fn from(encoded: String) -> Self {
        Self(Key::encoded(ADMIN, encoded))
    }
}
