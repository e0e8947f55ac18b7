//! The store is killed under load, comes back frozen, and then works again. The database never has more loads than all
//! processes together may run.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use rand::Rng;
use stockade::{
    Cache,
    cache::{CacheError, Lookup, Source},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    PROCESSES, amount,
    record::now,
    site::{Seat, Site},
};
use crate::{
    child::{Child, say, wait_for_parent},
    looks::look,
    support::{Item, LIMIT, report, turn, until},
};

const CALLERS: usize = 300;
const ITEMS: i64 = 1000;
/// How many loads a process may run at a time.
const LIMIT_OF_LOADS: usize = 4;
/// How many loads all processes together may run at a time.
const MOST_LOADS: i64 = 16;
const LOAD_TIMEOUT: Duration = Duration::from_secs(1);
/// Shorter than the time-out of loads, so that no statement of a load that was given up goes on in the database.
pub(super) const STATEMENT: Duration = Duration::from_millis(800);
/// The limit for an answer: a wait for the loads of other processes (3 s), one for a load slot (0.5 s), a load (1 s),
/// four commands without an answer (0.25 s each), and as much again for a busy machine.
const DEADLINE: Duration = Duration::from_secs(11);
const SCHEMA: &str = "create table item (id int8 primary key); insert into item select generate_series(0, 999)";
/// The statement of a load, by which the database's sessions show loads.
const LOAD: &str = "select id from item, pg_sleep(0.02) where id = $1";

#[derive(Default)]
struct Counters {
    running: AtomicI64,
    most_running: AtomicI64,
    loads: AtomicI64,
    hits: AtomicI64,
    kept: AtomicI64,
    loaded: AtomicI64,
    shed: AtomicI64,
    /// Reads that failed or took too long, as a few may on a busy machine.
    late: AtomicI64,
    failed: AtomicI64,
    slowest_ms: AtomicI64,
    over: AtomicBool,
}

impl Counters {
    fn answered(&self, began: u64, answer: &Result<Lookup<i64>, CacheError>) {
        let took = i64::try_from((now() - began) / 1_000_000).unwrap();
        self.slowest_ms.fetch_max(took, Ordering::Relaxed);
        let counter = match answer {
            Ok(lookup) if lookup.info.source == Source::Load => &self.loaded,
            Ok(lookup) if lookup.info.degraded || lookup.info.stale.is_some() => &self.kept,
            Ok(_) => &self.hits,
            Err(CacheError::Shed { .. }) => &self.shed,
            Err(CacheError::Timeout(_) | CacheError::Load(_)) => &self.late,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts since the last call. The numbers of running loads are not reset.
    fn read(&self) -> String {
        let since = |counter: &AtomicI64| counter.swap(0, Ordering::Relaxed);
        let told = [
            ("hits", since(&self.hits)),
            ("kept", since(&self.kept)),
            ("loaded", since(&self.loaded)),
            ("shed", since(&self.shed)),
            ("late", since(&self.late)),
            ("failed", since(&self.failed)),
            ("loads", since(&self.loads)),
            ("slowest_ms", since(&self.slowest_ms)),
            ("running", self.running.load(Ordering::Relaxed)),
            ("most_running", self.most_running.load(Ordering::Relaxed)),
        ];
        told.map(|(name, count)| format!("{name}={count}")).join(" ")
    }
}

/// Counts a load as running until it is dropped.
struct Running(Arc<Counters>);

impl Running {
    fn new(counters: &Arc<Counters>) -> Self {
        counters.loads.fetch_add(1, Ordering::Relaxed);
        let running = counters.running.fetch_add(1, Ordering::AcqRel) + 1;
        counters.most_running.fetch_max(running, Ordering::AcqRel);
        Self(Arc::clone(counters))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A process. Its callers read until the parent ends it. Each time that the parent tells it to go on, it reports its
/// counts.
pub(super) async fn call(seat: Seat) {
    let counters = Arc::new(Counters::default());
    let (pool, counts) = (seat.pool.clone(), Arc::clone(&counters));
    let load = move |item: Item| {
        let (pool, counts) = (pool.clone(), Arc::clone(&counts));
        async move {
            let _running = Running::new(&counts);
            sqlx::query_scalar::<_, i64>(LOAD).bind(item.0.parse::<i64>().unwrap()).fetch_optional(&pool).await
        }
    };
    // Lifetime and grace are short, so that there is always something to load.
    let lives = Duration::from_secs(2)..=Duration::from_secs(4);
    let builder = Cache::builder(&seat.redis).ttl(lives).grace(Duration::from_secs(1)).loader(load);
    let cache = builder.max_loads(LIMIT_OF_LOADS).load_timeout(LOAD_TIMEOUT).build();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (cache, counters) = (cache.clone(), Arc::clone(&counters));
        callers.spawn(async move {
            while !counters.over.load(Ordering::Relaxed) {
                let id = rand::rng().random_range(0..ITEMS);
                let began = now();
                counters.answered(began, &cache.get(&Item(id.to_string())).await);
                let pause = rand::rng().random_range(200..800);
                sleep(Duration::from_millis(pause)).await;
            }
        });
    }
    say("ready");
    while wait_for_parent().await == "go on" {
        say(&counters.read());
    }
    counters.over.store(true, Ordering::Relaxed);
    callers.join_all().await;
    until("no load runs", async || counters.running.load(Ordering::Acquire) == 0 && cache.stats().fetching == 0).await;
    cache.shutdown(Duration::from_secs(5)).await;
    seat.pool.close().await;
    say(&counters.read());
}

/// The counts of all processes since the last report, as sums or as the greatest count.
async fn told(processes: &mut [Child], request: &str) -> BTreeMap<String, i64> {
    let mut told = BTreeMap::new();
    for process in processes {
        process.tell(request).await;
        let said = timeout(LIMIT, process.next()).await.expect("a process hangs");
        for (name, count) in said.split(' ').map(|part| part.split_once('=').unwrap()) {
            let (all, count): (&mut i64, i64) = (told.entry(name.to_owned()).or_default(), count.parse().unwrap());
            let is_most = ["slowest_ms", "most_running"].contains(&name);
            *all = if is_most { count.max(*all) } else { *all + count };
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_down_the_fleet_loads_no_more_than_it_may() {
    const PHASES: [&str; 5] = ["begun", "normal", "killed", "frozen", "back"];
    let _turn = turn().await;
    assert_eq!(usize::try_from(MOST_LOADS).unwrap(), PROCESSES * LIMIT_OF_LOADS);
    let phase = Duration::from_secs(amount(2, 10));
    let site = Site::start(SCHEMA).await;
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        processes.push(site.process("outage").await);
    }
    let mut watch = Watch::default();
    for name in PHASES {
        match name {
            "killed" => site.redis.kill().await.unwrap(),
            "frozen" => {
                site.redis.restart().await.unwrap();
                site.redis.pause().unwrap();
            }
            "back" => site.redis.resume().unwrap(),
            _ => {}
        }
        let told = watch.phase(name, &site, &mut processes, phase).await;
        let is_down = ["killed", "frozen"].contains(&name);
        assert!(!is_down || told["loaded"] > 0 && told["shed"] > 0, "{name}: {told:?}");
    }
    // Values that are missing after the outage are loaded as fast as the limits allow. Then most reads are hits again.
    let limit = Instant::now() + LIMIT;
    while !is_normal(&watch.phase("normal again", &site, &mut processes, phase).await) {
        assert!(Instant::now() < limit, "it does not recover");
    }
    look(&site.redis).await;
    let last = told(&mut processes, "end").await;
    assert_eq!(last["running"], 0, "{last:?}");
    drop(processes);
    until("no load runs in the database", async || site.sessions("pg_sleep").await == 0).await;
    site.until_nothing_is_left().await;
    report(&format!(
        "{PROCESSES} processes, {CALLERS} callers each, {ITEMS} keys: at most {} of {MOST_LOADS} loads at a time in the \
         database, {} samples; the slowest answer took {} ms",
        watch.most_running, watch.samples, watch.slowest_ms
    ));
}

fn is_normal(told: &BTreeMap<String, i64>) -> bool {
    told["hits"] > told["shed"] + told["kept"] + told["loaded"]
}

/// The figures of the database and of the processes.
#[derive(Default)]
struct Watch {
    samples: u64,
    most_running: i64,
    slowest_ms: i64,
}

impl Watch {
    async fn phase(
        &mut self,
        name: &str,
        site: &Site,
        processes: &mut [Child],
        lasts: Duration,
    ) -> BTreeMap<String, i64> {
        let end = Instant::now() + lasts;
        while Instant::now() < end {
            let running = site.sessions("pg_sleep").await;
            assert!(running <= MOST_LOADS, "{running} loads run in the database, {name}");
            self.most_running = self.most_running.max(running);
            self.samples += 1;
            sleep(Duration::from_millis(3)).await;
        }
        let told = told(processes, "go on").await;
        report(&format!("{name}: {told:?}"));
        assert!(told["most_running"] <= i64::try_from(LIMIT_OF_LOADS).unwrap(), "{name}: {told:?}");
        assert!(told["slowest_ms"] <= i64::try_from(DEADLINE.as_millis()).unwrap(), "{name}: {told:?}");
        let answers: i64 = ["hits", "kept", "loaded", "shed"].iter().map(|kind| told[*kind]).sum();
        assert!(told["failed"] == 0 && told["late"] * 50 <= answers, "{name}: {told:?}");
        self.slowest_ms = self.slowest_ms.max(told["slowest_ms"]);
        told
    }
}
