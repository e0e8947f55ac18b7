use std::{pin::pin, time::Duration};

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

/// What a read goes by that waits for a load.
pub(crate) struct Patience<V> {
    /// When the call began: its hard time-out counts from here.
    pub(crate) called: Instant,
    /// When this process began to fetch the key: the soft time-out counts from here.
    pub(crate) fetching: Instant,
    /// The expired value that this very call has found, so that no write from before it dropped that.
    pub(crate) stale: Option<Entry<V>>,
}

impl<V> Patience<V> {
    /// Of a call that has to fetch it.
    pub(crate) fn of(called: Instant, stale: Option<Entry<V>>) -> Self {
        Self { called, fetching: called, stale }
    }
}

impl<K: Sync, V: Send + Sync> Core<K, V> {
    /// What this brings, or the answer to a read that waits for it no longer. Nothing ends what it waited for but that
    /// it is dropped. Cancel safe.
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
            match timeout(left(fetching + soft), work.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(_) => {
                    if let Some(found) = stale() {
                        return Err(Ok(found));
                    }
                }
            }
        }
        let Some(hard) = hard else { return Ok(work.await) };
        timeout(left(called + hard), work).await.map_err(|_| stale().ok_or(CacheError::Timeout(hard)))
    }
}

fn left(until: Instant) -> Duration {
    until.since(Instant::now())
}
