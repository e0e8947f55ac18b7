use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::{sleep, timeout},
};

use crate::breaker::{Breaker, Permit};

/// How many loads may wait. More are refused at once, so the queue is bounded. All callers of a process that has just
/// started may ask for different keys: they are to wait for as long as a load may wait, and not to be counted out.
const WAITING: usize = 8_192;

/// Protects the database from loads: limits how many run at a time and how many begin per second, and stops loads while
/// the database does not answer.
///
/// When the loads of five different keys have failed in a row, no load is tried for a second. Then one load is tried,
/// to find out whether the database answers again. The time between such tries grows to ten seconds at most.
///
/// A cache has limits of its own unless [`CacheBuilder::limits`](crate::cache::CacheBuilder::limits) sets them. Give
/// caches that load from the same database the same limits, unless the loader of one reads another: such a load holds a
/// place while it waits for one, and with the same limits all may wait for each other until they fail. Cheap to clone.
///
/// ```
/// # use std::{borrow::Cow, convert::Infallible};
/// # use stockade::{Cache, Resource, cache::Limits};
/// # #[derive(Clone)]
/// # struct Sku(String);
/// # impl Resource for Sku {
/// #     const KIND: &'static str = "stock";
/// #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
/// # }
/// # async fn quantity(_: Sku) -> Result<Option<u32>, Infallible> { Ok(None) }
/// # async fn price(_: Sku) -> Result<Option<u64>, Infallible> { Ok(None) }
/// let limits = Limits::new(8, None);
/// let quantities = Cache::memory().limits(&limits).loader(quantity).build();
/// let prices = Cache::memory().name("price").limits(&limits).loader(price).build();
/// # let _: (Cache<Sku, u32>, Cache<Sku, u64>) = (quantities, prices);
/// ```
#[derive(Clone)]
pub struct Limits(Arc<Shared>);

struct Shared {
    running: Semaphore,
    max_loads: usize,
    /// The places in the queue.
    waiting: Semaphore,
    rate: Option<DefaultDirectRateLimiter>,
    breaker: Breaker,
    spare: Spare,
}

/// The limits of loads that no read waits for: half of the places and of the rate, and only while reads leave them.
struct Spare {
    places: Semaphore,
    /// This many places stay free for reads.
    reserve: usize,
    /// Spaces the loads evenly, so that they do not use up at once what reads may need in the same second.
    rate: Option<DefaultDirectRateLimiter>,
    freed: Notify,
}

/// The right to run one load. Its holder reports at the end whether the load succeeded.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    _running: Place<'a>,
    _spare: Option<SemaphorePermit<'a>>,
    pub(super) permit: Permit,
}

/// A place among the running loads. When it ends, a spare load that waits for a place is notified, even if no load ran
/// in it: the place may have looked taken to the spare load for a moment.
#[derive(Debug)]
struct Place<'a> {
    // Fields drop in this order: the place is free before the waiting load is notified.
    _permit: SemaphorePermit<'a>,
    _freed: Freed<'a>,
}

#[derive(Debug)]
struct Freed<'a>(&'a Notify);

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Limits {
    /// At most `max_loads` loads run at a time. If `per_second` is given, at most so many begin per second: after a
    /// quiet time they may all begin at once, later ones evenly spaced.
    ///
    /// # Panics
    ///
    /// When `max_loads` is zero.
    #[must_use]
    pub fn new(max_loads: usize, per_second: Option<NonZeroU32>) -> Self {
        assert!(max_loads > 0, "a cache that may run no load can't answer: give at least 1");
        let max_loads = max_loads.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared {
            running: Semaphore::new(max_loads),
            max_loads,
            waiting: Semaphore::new(WAITING),
            rate: per_second.map(|rate| RateLimiter::direct(Quota::per_second(rate))),
            breaker: Breaker::new("database"),
            spare: Spare::of(max_loads, per_second),
        }))
    }

    /// Tells the limits that the database answers, as a health check has found out. While all reads are hits there are
    /// no loads to show it, and the metric would say for hours that the database is given up.
    ///
    /// Changes nothing while a load is refused or under way: the loads decide first.
    pub fn database_answered(&self) {
        self.0.breaker.answered();
    }

    /// How many loads may run at a time.
    pub(crate) fn width(&self) -> usize {
        self.0.max_loads
    }

    /// Whether the database counts as down, so that no load is tried.
    pub(crate) fn is_refusing(&self) -> bool {
        self.0.breaker.refusing().is_some()
    }

    /// Waits at most `wait` for a place. The error says when to try again. Cancel safe.
    pub(crate) async fn admit(&self, wait: Duration) -> Result<Admission<'_>, Duration> {
        let shared = &*self.0;
        if let Some(refused) = shared.breaker.refusing() {
            return Err(refused);
        }
        let permit = match shared.running.try_acquire() {
            Ok(permit) => permit,
            Err(_) => shared.queue(wait).await?,
        };
        let running = shared.spare.place(permit);
        turn(shared.rate.as_ref())?;
        // Last, because a half-open breaker gives out one permit, which must not be spent on waiting.
        let permit = shared.breaker.permit()?;
        Ok(Admission { _running: running, _spare: None, permit })
    }

    /// Waits, without a limit, until reads leave a place free. Cancel safe.
    pub(crate) async fn admit_spare(&self) -> Admission<'_> {
        let shared = &*self.0;
        let spare = &shared.spare;
        let own = spare.places.acquire().await.ok();
        loop {
            if let Some(refused) = shared.breaker.refusing() {
                sleep(refused).await;
                continue;
            }
            if let Err(wait) = turn(spare.rate.as_ref()) {
                sleep(wait).await;
                continue;
            }
            let running = spare.place(spare.leftover(&shared.running).await);
            match turn(shared.rate.as_ref()).and_then(|()| shared.breaker.permit()) {
                Ok(permit) => return Admission { _running: running, _spare: own, permit },
                Err(wait) => {
                    drop(running);
                    sleep(wait).await;
                }
            }
        }
    }
}

/// Takes one unit of the rate, or returns how long to wait for one.
fn turn(rate: Option<&DefaultDirectRateLimiter>) -> Result<(), Duration> {
    let not_until = rate.map_or(Ok(()), RateLimiter::check);
    not_until.map_err(|not_until| not_until.wait_time_from(governor::clock::DefaultClock::default().now()))
}

impl Spare {
    fn of(max_loads: usize, per_second: Option<NonZeroU32>) -> Self {
        let reserve = max_loads / 2;
        let rate = per_second.and_then(|rate| Quota::with_period(Duration::from_secs(2) / rate.get()));
        let places = Semaphore::new(max_loads - reserve);
        Self { places, reserve, rate: rate.map(RateLimiter::direct), freed: Notify::new() }
    }

    fn place<'a>(&'a self, permit: SemaphorePermit<'a>) -> Place<'a> {
        Place { _permit: permit, _freed: Freed(&self.freed) }
    }

    /// Waits until more than `reserve` places are free, and takes one.
    async fn leftover<'a>(&self, running: &'a Semaphore) -> SemaphorePermit<'a> {
        loop {
            let freed = self.freed.notified();
            if running.available_permits() > self.reserve
                && let Ok(place) = running.try_acquire()
            {
                // `Notify` merges notifications, so one may stand for several free places: pass it on.
                self.freed.notify_one();
                return place;
            }
            freed.await;
        }
    }
}

impl Shared {
    async fn queue(&self, wait: Duration) -> Result<SemaphorePermit<'_>, Duration> {
        let _waits = self.waiting.try_acquire().map_err(|_| wait)?;
        // A place that comes too late goes back without a word to those who wait for a free one.
        let _told = Freed(&self.spare.freed);
        timeout(wait, self.running.acquire()).await.ok().and_then(Result::ok).ok_or(wait)
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("free", &self.0.running.available_permits())
            .field("free_in_queue", &self.0.waiting.available_permits())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn a_place_that_came_to_nothing_is_told_of() {
        let limits = Limits::new(1, NonZeroU32::new(1));
        let first = limits.admit(Duration::ZERO).await.unwrap();
        let mut read = pin!(limits.admit(Duration::from_secs(60)));
        let mut spare = pin!(limits.admit_spare());
        assert!(poll!(read.as_mut()).is_pending() && poll!(spare.as_mut()).is_pending());
        drop(first);
        // The place goes to the read, which was in the queue first.
        assert!(poll!(spare.as_mut()).is_pending());
        assert!(read.await.is_err(), "two began in one second");
        let admitted = timeout(Duration::from_secs(20), spare).await;
        assert!(admitted.is_ok(), "it sleeps beside a place that is free");
    }

    #[tokio::test]
    async fn a_place_that_came_too_late_is_told_of() {
        let limits = Limits::new(1, None);
        let first = limits.admit(Duration::ZERO).await.unwrap();
        let mut read = Box::pin(limits.admit(Duration::from_secs(60)));
        let mut spare = pin!(limits.admit_spare());
        assert!(poll!(read.as_mut()).is_pending() && poll!(spare.as_mut()).is_pending());
        drop(first);
        assert!(poll!(spare.as_mut()).is_pending(), "the read was in the queue first");
        drop(read);
        let admitted = timeout(Duration::from_secs(20), spare).await;
        assert!(admitted.is_ok(), "it sleeps beside a place that is free");
    }
}
