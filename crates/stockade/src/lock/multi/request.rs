use std::{sync::Arc, time::Duration};

use super::{MultiFence, MultiGuard, acquire};
use crate::{
    lock::{
        LockError, Mode, RunError,
        request::{run_under, tried},
        shared::Shared,
        terms::{Terms, request_setters},
    },
    resource::{Key, KeyError},
    store::Attempt,
};

/// A request for exclusive locks on several resources, from [`Locks::write_all`](crate::Locks::write_all).
///
/// Every mistake in a request is found before anything is sent.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until acquired"]
pub struct MultiRequest {
    shared: Arc<Shared>,
    keys: Result<Vec<Key>, KeyError>,
    terms: Terms,
}

request_setters!(MultiRequest);

impl MultiRequest {
    /// The most resources of one request.
    pub const MAX: usize = 64;

    pub(in crate::lock) fn new(shared: Arc<Shared>, keys: impl Iterator<Item = Result<Key, KeyError>>) -> Self {
        let terms = Terms::new(shared.lease);
        // One more than allowed is enough to refuse. The iterator may be endless.
        Self { shared, keys: keys.take(Self::MAX + 1).collect(), terms }
    }

    /// Waits until all are held. Must be polled within a tokio runtime.
    ///
    /// If all are free, this is one call of the store: in memory always, and on Redis if one server has them all (in a
    /// Cluster: if one slot has them). Otherwise each resource takes a further call, and the wait for that resource.
    ///
    /// Cancel safe: a dropped future leaves neither a queue entry nor a lock behind.
    ///
    /// # Errors
    ///
    /// Nothing is held after an error.
    ///
    /// - Before anything is sent: [`LockError::Key`], [`LockError::Count`], [`LockError::Tag`],
    ///   [`LockError::Duration`].
    /// - [`LockError::Timeout`] with the resource that was not free, or [`LockError::Busy`] if the wait is zero.
    /// - [`LockError::Lost`] if one of them was lost while the attempt waited for the rest.
    /// - [`LockError::QueueFull`], [`LockError::Unavailable`], [`LockError::Foreign`], [`LockError::ShuttingDown`].
    pub async fn acquire(self) -> Result<MultiGuard, LockError> {
        let (attempts, places) = self.attempts()?;
        let held = acquire::all(&self.shared, attempts, self.terms.max_hold).await?;
        Ok(MultiGuard::new(held, places))
    }

    /// Tries once, whatever [`MultiRequest::wait`] was set to. `None` if another owner holds or waits for one of them.
    /// Cancel safe, like [`MultiRequest::acquire`].
    ///
    /// # Errors
    ///
    /// Like [`MultiRequest::acquire`], but never `Busy`, `Timeout` or `QueueFull`.
    pub async fn try_acquire(self) -> Result<Option<MultiGuard>, LockError> {
        tried(self.wait(Duration::ZERO).acquire().await)
    }

    /// Runs `work` under the locks, releases them, and returns what the work returned, as
    /// [`LockRequest::run`](crate::lock::LockRequest::run) does for one. The loss of any lock cancels the work.
    ///
    /// ```
    /// # use stockade::{Locks, Resource};
    /// # struct Shelf(u32);
    /// # impl Resource for Shelf {
    /// #     const KIND: &'static str = "shelf";
    /// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.to_string().into() }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::memory();
    /// let counted = locks.write_all(&[Shelf(1), Shelf(2)]).run(async |fences| fences.iter().count());
    /// assert_eq!(counted.await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Lock`] if the work did not start, [`RunError::Lost`] if it was cancelled. A release that fails
    /// afterwards does not change the result of the work. It is logged, and repeated in the background.
    pub async fn run<F, Fut>(self, work: F) -> Result<Fut::Output, RunError>
    where
        F: FnOnce(MultiFence) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire().await?;
        let fences = guard.fences();
        run_under(&fences.label(), work(guard.fences()), fences.lost(), guard.release()).await
    }

    /// One attempt for each resource, in the order of acquisition. Also, for each resource that the caller named, the
    /// index of its attempt.
    fn attempts(&self) -> Result<(Vec<Attempt>, Arc<[usize]>), LockError> {
        let keys = self.keys.as_ref().map_err(Clone::clone)?;
        if keys.is_empty() || keys.len() > Self::MAX {
            return Err(LockError::Count { given: keys.len(), max: Self::MAX });
        }
        let mut sorted: Vec<&Key> = keys.iter().collect();
        sorted.sort_unstable_by_key(|key| order(key));
        sorted.dedup();
        let places =
            keys.iter().filter_map(|key| sorted.binary_search_by_key(&order(key), |key| order(key)).ok()).collect();
        let max_waiters = self.shared.max_waiters;
        let attempts = sorted.into_iter().map(|key| self.terms.attempt(key.clone(), Mode::Write, max_waiters));
        Ok((attempts.collect::<Result<_, _>>()?, places))
    }
}

/// The order in which all processes ask and claim. Resources that share a slot of a Cluster are next to each other.
pub(crate) fn order(key: &Key) -> (u8, &[u8]) {
    (key.bucket().index(), key.as_str().as_bytes())
}
