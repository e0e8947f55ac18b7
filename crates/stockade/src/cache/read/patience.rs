use std::pin::pin;

use tokio::time::timeout;

use crate::{
    cache::{
        CacheError, Lookup, Source,
        core::Core,
        flight::{Answer, lookup},
        value::Entry,
    },
    clock::Instant,
};

/// How long a read waits for a load, and what it answers if the load takes longer.
pub(crate) struct Patience<V> {
    /// When the call began: its hard time-out counts from here.
    pub(crate) called: Instant,
    /// When this process began to fetch the key: the soft time-out counts from here.
    pub(crate) fetching: Instant,
    /// The expired value that this call itself has read. A write that ended before the call would have dropped it.
    pub(crate) stale: Option<Entry<V>>,
}

impl<K: Sync, V: Send + Sync> Core<K, V> {
    /// Waits for `work` until a time-out of the read. After a time-out it drops `work` and returns, as `Err`, the
    /// result of the read: the expired value or [`CacheError::Timeout`]. A load that `work` waited for goes on. Cancel
    /// safe.
    pub(crate) async fn in_time<T: Send>(
        &self,
        work: impl Future<Output = T> + Send,
        patience: Patience<V>,
    ) -> Result<T, Result<Lookup<V>, CacheError>> {
        let (soft, hard) = (self.settings.soft_timeout, self.settings.hard_timeout);
        let Patience { called, fetching, stale } = patience;
        let stale = || {
            let entry = stale.as_ref().filter(|_| self.settings.strict.is_none())?;
            let is_kept = Instant::now() < entry.expires + self.settings.grace;
            is_kept.then(|| lookup(Answer::from_entry(entry.clone(), Source::Redis, false), false))
        };
        let mut work = pin!(work);
        if let Some(soft) = soft
            && stale().is_some()
        {
            match timeout((fetching + soft).remaining(), work.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(_) => {
                    if let Some(found) = stale() {
                        return Err(Ok(found));
                    }
                }
            }
        }
        let Some(hard) = hard else { return Ok(work.await) };
        timeout((called + hard).remaining(), work).await.map_err(|_| stale().ok_or(CacheError::Timeout(hard)))
    }
}
