use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::Rng;
use tokio::{sync::watch, time::sleep};

/// How long a wait for another process's load goes without asking again: its message may be lost.
pub(crate) const POLL: Duration = Duration::from_millis(250);

/// Who waits in this process for news of a key, by its encoded text.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Mutex<HashMap<String, watch::Sender<()>>>);

/// Resolves when there is news of a key. News that came after it was made is not lost.
pub(crate) struct Wake {
    wakes: Arc<Wakes>,
    key: String,
    news: watch::Receiver<()>,
}

impl Wakes {
    pub(crate) fn watch(self: &Arc<Self>, key: &str) -> Wake {
        let news = self.lock().entry(key.to_owned()).or_insert_with(|| watch::Sender::new(())).subscribe();
        Wake { wakes: Arc::clone(self), key: key.to_owned(), news }
    }

    pub(crate) fn wake(&self, key: &str) {
        if let Some(news) = self.lock().get(key) {
            news.send_replace(());
        }
    }

    pub(crate) fn wake_all(&self) {
        for news in self.lock().values() {
            news.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake {
    /// Cancel safe.
    pub(crate) async fn woken(&mut self) {
        // The sender stays in the map while a receiver lives, so that waiting can't fail.
        self.news.changed().await.unwrap_or_default();
    }
}

/// Waits for word of another's load, but not longer than it may last.
pub(crate) async fn until_news(wake: &mut Wake, left: Duration) {
    let jitter = Duration::from_millis(rand::rng().random_range(0..50));
    tokio::select! {
        () = wake.woken() => {}
        () = sleep(left.min(POLL) + jitter) => {}
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        let mut wakes = self.wakes.lock();
        // This receiver still counts.
        if wakes.get(&self.key).is_some_and(|news| news.receiver_count() == 1) {
            wakes.remove(&self.key);
        }
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wake").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn news_before_the_wait_is_not_lost_and_nothing_stays_behind() {
        let wakes = Arc::new(Wakes::default());
        let mut first = wakes.watch("stock:a");
        let mut second = wakes.watch("stock:a");
        let mut other = wakes.watch("stock:b");
        wakes.wake("stock:a");
        first.woken().await;
        second.woken().await;
        assert!(other.woken().now_or_never().is_none());
        drop((first, second, other));
        assert!(wakes.lock().is_empty());
    }
}
