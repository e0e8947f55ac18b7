use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::Rng;
use tokio::{sync::watch, time::sleep};

/// How long a wait for another process's load lasts before the caller asks again: the message may be lost.
pub(crate) const POLL: Duration = Duration::from_millis(250);

/// The calls of this process that wait for somebody else's load, by the encoded text of the key.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Mutex<HashMap<String, watch::Sender<()>>>);

/// Is notified when a load of a key ends or the key is invalidated. No notification after its creation is lost.
pub(crate) struct Wake {
    wakes: Arc<Wakes>,
    key: String,
    /// Gone only while it is dropped.
    news: Option<watch::Receiver<()>>,
}

impl Wakes {
    pub(crate) fn watch(self: &Arc<Self>, key: &str) -> Wake {
        let news = self.0.lock().entry(key.to_owned()).or_insert_with(|| watch::Sender::new(())).subscribe();
        Wake { wakes: Arc::clone(self), key: key.to_owned(), news: Some(news) }
    }

    pub(crate) fn wake(&self, key: &str) {
        if let Some(news) = self.0.lock().get(key) {
            news.send_replace(());
        }
    }

    pub(crate) fn wake_all(&self) {
        for news in self.0.lock().values() {
            news.send_replace(());
        }
    }
}

impl Wake {
    /// Cancel safe.
    pub(crate) async fn woken(&mut self) {
        // Waiting can't fail: the sender stays in the map while a receiver lives.
        if let Some(news) = &mut self.news {
            news.changed().await.unwrap_or_default();
        }
    }
}

/// Waits for a notification, for `left` or [`POLL`] at most, whichever is shorter. Up to 50 ms of jitter are added, so
/// that callers do not ask again all at once.
pub(crate) async fn until_news(wake: &mut Wake, left: Duration) {
    let jitter = Duration::from_millis(rand::rng().random_range(0..50));
    tokio::select! {
        () = wake.woken() => {}
        () = sleep(left.min(POLL) + jitter) => {}
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        let mut wakes = self.wakes.0.lock();
        // Under the mutex: two that are dropped at the same time would each count the other.
        self.news = None;
        if wakes.get(&self.key).is_some_and(|news| news.receiver_count() == 0) {
            wakes.remove(&self.key);
        }
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
        assert!(wakes.0.lock().is_empty());
    }

    #[test]
    fn two_that_go_at_the_same_time_leave_nothing_behind() {
        let (wakes, both) = (Arc::new(Wakes::default()), std::sync::Barrier::new(2));
        for _ in 0..20_000 {
            let (one, other) = (wakes.watch("stock:a"), wakes.watch("stock:a"));
            std::thread::scope(|scope| {
                for wake in [one, other] {
                    scope.spawn(|| {
                        let wake = wake;
                        both.wait();
                        drop(wake);
                    });
                }
            });
            assert!(wakes.0.lock().is_empty());
        }
    }
}
