use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
#[cfg(feature = "demo")]
use rand::Rng;
#[cfg(feature = "demo")]
use tokio::time::interval;
use tokio::time::{Instant, sleep, timeout};

use super::{
    AttackError, goods,
    guarded::{Guarded, Way},
    item::Item,
    meter::{Figures, Meter, SoldBy},
    naive::Naive,
    place::Place,
};
#[cfg(feature = "demo")]
use super::{lab_process::LabProcess, own_redis::OwnRedis};
#[cfg(feature = "demo")]
use crate::console::chain;
use crate::lab::{Count, Scheme};

/// How many callers of [`Ground::pace`] wait at once on each side at most.
#[cfg(feature = "demo")]
const AT_ONCE: usize = 2_000;

/// How long a cache on the Redis of an attack may take to shut down.
#[cfg(feature = "demo")]
const LAST: Duration = Duration::from_secs(1);

/// How long a cache goes on with a load for which nobody waits, and a little longer.
const LONGEST_LOAD: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// The two sides of an attack, and the servers that they use.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) on: Arc<Guarded>,
    pub(super) off: Arc<Naive>,
    pub(super) place: Place,
    began: OnceLock<Instant>,
    sold: OnceLock<[Count; 2]>,
    schemes: Mutex<Vec<SoldBy>>,
    /// The schemes that the attack wants to show beside its two sides.
    others: OnceLock<Vec<Scheme>>,
    /// The Redis that the attack started, which only the two sides use.
    #[cfg(feature = "demo")]
    server: Option<OwnRedis>,
    /// The process that the attack started to sell under other schemes.
    #[cfg(feature = "demo")]
    pub(super) lab_process: tokio::sync::Mutex<Option<LabProcess>>,
}

impl Ground {
    pub(super) fn new(on: Arc<Guarded>, off: Naive, place: &Place) -> Self {
        Self {
            on,
            off: Arc::new(off),
            place: place.clone(),
            began: OnceLock::new(),
            sold: OnceLock::new(),
            schemes: Mutex::default(),
            others: OnceLock::new(),
            #[cfg(feature = "demo")]
            server: None,
            #[cfg(feature = "demo")]
            lab_process: tokio::sync::Mutex::default(),
        }
    }

    /// This ground with a Redis of its own, which ends with the ground.
    #[cfg(feature = "demo")]
    pub(super) fn on_server(self, server: OwnRedis) -> Self {
        Self { server: Some(server), ..self }
    }

    /// The Redis that the attack started.
    ///
    /// # Errors
    ///
    /// [`AttackError::Elsewhere`]: the ground is on the Redis of the service, which is left alone.
    #[cfg(feature = "demo")]
    pub(super) fn server(&self) -> Result<&OwnRedis, AttackError> {
        self.server.as_ref().ok_or(AttackError::Elsewhere("the attack has no Redis of its own"))
    }

    /// Ends what the attack started: the process of the lab, or the Redis with the cache on it.
    #[cfg(feature = "demo")]
    pub(super) async fn end(self) {
        if let Some(lab) = self.lab_process.into_inner() {
            lab.end().await;
        }
        let Some(server) = self.server else { return };
        self.on.shutdown(LAST).await;
        if let Err(error) = server.kill().await {
            tracing::warn!(error = %chain(&error), "the Redis of an attack did not end");
        }
    }

    /// Makes the table, empties both caches, and makes each load take `load_ms` milliseconds.
    pub(super) async fn prepare(&self, load_ms: u64) -> Result<(), AttackError> {
        goods::make(&self.place.pg).await?;
        self.on.settled().await;
        self.on.clear().await?;
        self.off.clear().await?;
        for goods in [&self.on.goods, &self.off.goods] {
            goods.set_load(load_ms);
        }
        Ok(())
    }

    /// Waits until no load of an earlier attack is under way: it would count here.
    pub(super) async fn quiet(&self) {
        let loading = || self.meters().iter().any(|meter| meter.is_loading());
        let ended = async {
            while loading() {
                sleep(LOOK).await;
            }
        };
        let _ = timeout(LONGEST_LOAD, ended).await;
    }

    /// Begins the attack: sets the meters of both sides to zero.
    pub(super) fn begin(&self) {
        for meter in self.meters() {
            meter.reset();
        }
        self.began.get_or_init(Instant::now);
    }

    /// The time since the attack began; `None` during its preparation.
    pub(super) fn attacked(&self) -> Option<Duration> {
        self.began.get().map(Instant::elapsed)
    }

    /// Notes the counts of both sides, in an attack that sells.
    pub(super) fn sold(&self, counts: [Count; 2]) {
        self.sold.get_or_init(|| counts);
    }

    /// Whether both sides have sold all that they are going to sell.
    pub(super) fn has_sold(&self) -> bool {
        self.sold.get().is_some()
    }

    /// Notes the other schemes of the lab that are going to sell.
    pub(super) fn others(&self, schemes: Vec<Scheme>) {
        self.others.get_or_init(|| schemes);
    }

    /// Notes the count of another scheme of the lab.
    pub(super) fn sold_by(&self, scheme: Scheme, count: Count) {
        self.schemes.lock().push(SoldBy::new(scheme, Ok(count)));
    }

    /// Notes `why` there is no count of those of the other schemes that `are_meant` and have none yet.
    pub(super) fn not_sold(&self, why: &'static str, are_meant: impl Fn(Scheme) -> bool) {
        let mut noted = self.schemes.lock();
        for &scheme in self.others.get().into_iter().flatten().filter(|&&scheme| are_meant(scheme)) {
            if !noted.iter().any(|line| line.is_of(scheme)) {
                noted.push(SoldBy::new(scheme, Err(why)));
            }
        }
    }

    pub(super) fn schemes(&self) -> Vec<SoldBy> {
        self.schemes.lock().clone()
    }

    /// The figures of each side: with the defences, then without.
    pub(super) fn figures(&self) -> [Figures; 2] {
        let [mut on, mut off] = self.meters().map(Meter::figures);
        if let Some([with, without]) = self.sold.get() {
            (on.stock, off.stock) = (Some(*with), Some(*without));
        }
        [on, off]
    }

    /// The meters of both sides: with the defences, then without.
    pub(super) fn meters(&self) -> [&Meter; 2] {
        [self.on.goods.meter(), self.off.goods.meter()]
    }

    /// Asks both sides for the same items, `at_once` callers on each.
    pub(super) async fn ask(&self, items: impl Iterator<Item = Item> + Clone + Send, at_once: u32, way: Way) {
        let at_once = at_once as usize;
        let with =
            stream::iter(items.clone()).for_each_concurrent(at_once, |item| ask_on(Arc::clone(&self.on), item, way));
        let without = stream::iter(items).for_each_concurrent(at_once, |item| ask_off(Arc::clone(&self.off), item));
        tokio::join!(with, without);
    }

    /// Asks each side for random items below `items`, at a steady rate that does not depend on how long answers take.
    /// Returns when all are answered.
    #[cfg(feature = "demo")]
    pub(super) async fn pace(&self, items: u32, per_second: u32, seconds: u32) {
        let visits = || {
            let ticks = stream::unfold(interval(Duration::from_secs(1) / per_second.max(1)), |mut ticks| async {
                ticks.tick().await;
                Some(((), ticks))
            });
            let asked = (per_second * seconds) as usize;
            ticks.take(asked).map(move |()| Item(rand::rng().random_range(0..items)))
        };
        let with = visits().for_each_concurrent(AT_ONCE, |item| ask_on(Arc::clone(&self.on), item, Way::SingleFlight));
        let without = visits().for_each_concurrent(AT_ONCE, |item| ask_off(Arc::clone(&self.off), item));
        tokio::join!(with, without);
    }
}

async fn ask_on(on: Arc<Guarded>, item: Item, way: Way) {
    let since = Instant::now();
    let is_answered = on.get(item, way).await.is_ok();
    on.goods.meter().count(since, is_answered);
}

async fn ask_off(off: Arc<Naive>, item: Item) {
    let since = Instant::now();
    let is_answered = off.get(item).await.is_ok();
    off.goods.meter().count(since, is_answered);
}
