//! Histories of four processes that are killed, stopped and cut off while the store fails. All their reads and writes
//! together must be possible with one register per key.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use sqlx::PgConnection;
use stockade_testbed::{Fault, Proxy};
use tokio::time::{Instant, sleep};

use super::{
    PROCESSES, amount,
    history::History,
    item::{self, KEYS},
    record::{Record, What, now},
    seed,
    site::{Site, all_go_on},
};
use crate::{
    child::Child,
    looks::{Look, try_look},
    support::{report, turn, until},
};

/// A commit of an item waits while somebody holds the gate.
const GATE: &str = "
    create function gate() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock_shared(7); return null; end $$;
    create constraint trigger gate after update on item deferrable initially deferred
        for each row execute function gate();";

/// The faults of the processes and the store meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// A process is killed, and another takes its place.
    Kill,
    /// A process stands still for a while.
    Stop,
    /// The network between a process and the store holds everything up for a while, and then delivers it.
    Partition,
    /// The store is killed, and comes back empty.
    Restart,
    /// The store stands still for a while.
    Freeze,
    /// The store loses its data, and no process is told.
    Flush,
    /// Commits are held at their last step, and checked there.
    Gate,
}

struct Run {
    site: Site,
    random: StdRng,
    /// Each process, and its way to the store.
    processes: Vec<(Child, Proxy)>,
    logs: Vec<PathBuf>,
    folder: tempfile::TempDir,
    history: History,
    troubles: BTreeMap<Trouble, usize>,
    /// How many commits were checked.
    looked_at: usize,
    /// The errors of each look at the store.
    broken: Vec<String>,
    /// When the store last lost its data, in seconds by the database's clock.
    lost: f64,
}

impl Run {
    async fn start(seed: u64) -> Self {
        let site = Site::start(item::SCHEMA).await;
        sqlx::raw_sql(GATE).execute(&site.pool).await.unwrap();
        let mut run = Self {
            site,
            random: StdRng::seed_from_u64(seed),
            processes: Vec::new(),
            logs: Vec::new(),
            folder: tempfile::tempdir().unwrap(),
            history: History::default(),
            troubles: BTreeMap::new(),
            looked_at: 0,
            broken: Vec::new(),
            lost: 0.0,
        };
        for _ in 0..PROCESSES {
            run.add_process().await;
        }
        run
    }

    async fn add_process(&mut self) {
        let log = self.folder.path().join(self.logs.len().to_string());
        let role = format!("history {} {}", log.display(), self.random.random::<u64>());
        let way = Proxy::start(self.site.redis.addr()).await.unwrap();
        let child = self.site.process_at(&role, way.url_for(&self.site.redis.url()), self.site.locks.url()).await;
        self.processes.push((child, way));
        self.logs.push(log);
    }

    fn next_trouble(&mut self) -> Trouble {
        match self.random.random_range(0..100) {
            0..25 => Trouble::Kill,
            25..37 => Trouble::Stop,
            37..50 => Trouble::Partition,
            50..60 => Trouble::Restart,
            60..67 => Trouble::Freeze,
            67..75 => Trouble::Flush,
            _ => Trouble::Gate,
        }
    }

    async fn make(&mut self, trouble: Trouble) {
        *self.troubles.entry(trouble).or_default() += 1;
        let (process, pause) = (self.random.random_range(0..PROCESSES), self.random.random_range(200..1500));
        let pause = Duration::from_millis(pause);
        match trouble {
            Trouble::Kill => {
                self.processes.swap_remove(process).0.kill().await;
                self.add_process().await;
            }
            Trouble::Stop => {
                self.processes[process].0.pause().await;
                sleep(pause).await;
                self.processes[process].0.resume();
            }
            Trouble::Partition => {
                self.processes[process].1.set(Fault::Hole);
                sleep(pause / 2).await;
                self.processes[process].1.set(Fault::None);
            }
            Trouble::Restart => {
                self.site.redis.kill().await.unwrap();
                sleep(pause / 4).await;
                self.site.redis.restart().await.unwrap();
                self.lost = self.database_time().await;
                // Every read is a load until a relay has vouched for the store. More of these would show nothing.
                until("the store is believed", async || self.is_vouched_for().await).await;
            }
            Trouble::Freeze => {
                self.site.redis.pause().unwrap();
                sleep(pause / 2).await;
                self.site.redis.resume().unwrap();
            }
            Trouble::Flush => {
                let before = now();
                self.site.redis.command(&["FLUSHALL"]).await.unwrap();
                self.history.losses.push((before, now()));
                self.lost = self.database_time().await;
            }
            Trouble::Gate => self.look_at_commits().await,
        }
    }

    async fn is_vouched_for(&self) -> bool {
        let marker = self.site.redis.command(&["KEYS", "*}j:*"]).await.unwrap();
        !marker.is_empty() && self.site.redis.command(&["GET", &marker]).await.unwrap().ends_with(" t")
    }

    async fn database_time(&self) -> f64 {
        const SQL: &str = "select extract(epoch from clock_timestamp())::float8";
        sqlx::query_scalar(SQL).fetch_one(&self.site.pool).await.unwrap()
    }

    /// Checks that the store has the announcement of each transaction that has come to its COMMIT, unless the store has
    /// lost its data since.
    async fn look_at_commits(&mut self) {
        let mut gate = self.site.pool.acquire().await.unwrap();
        sqlx::query("select pg_advisory_lock(7)").execute(&mut *gate).await.unwrap();
        // Only transactions that come within this time are checked. Any that take longer are checked another time.
        sleep(Duration::from_millis(self.random.random_range(20..200))).await;
        let committing = self.committing(&mut gate).await;
        let looked = self.look().await;
        for transaction in &committing {
            if !looked.transactions.contains(transaction) {
                self.broken.push(format!("{transaction} of {committing:?} commits unannounced: {looked:?}"));
            }
        }
        self.looked_at += committing.len();
        sqlx::query("select pg_advisory_unlock(7)").execute(&mut *gate).await.unwrap();
    }

    async fn look(&mut self) -> Look {
        let look = try_look(&self.site.redis).await.unwrap();
        if !look.broken.is_empty() {
            self.broken.push(look.broken.clone());
        }
        look
    }

    async fn committing(&self, gate: &mut PgConnection) -> Vec<String> {
        const SQL: &str = "select backend_xid::text from pg_stat_activity
            where wait_event = 'advisory' and extract(epoch from xact_start)::float8 > $1";
        sqlx::query_scalar(SQL).bind(self.lost).fetch_all(gate).await.unwrap()
    }

    /// Waits for the end of the processes, and reads their logs.
    async fn end(mut self) -> Self {
        for (done, wanted) in [("written", false), ("over", true)] {
            if wanted {
                // The readers still run, and end the announcements of killed writers.
                until("no announcement is left", async || {
                    try_look(&self.site.redis).await.is_ok_and(|look| look.transactions.is_empty())
                })
                .await;
            }
            all_go_on(self.processes.iter_mut().map(|(child, _)| child).collect(), done).await;
        }
        self.processes.clear();
        self.site.until_nothing_is_left().await;
        self.history.read(&self.site.pool, &self.logs).await;
        self
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = self.history.count(What::Committing);
        let (acknowledged, committed) = (self.history.count(What::Acknowledged), self.history.committed.len());
        write!(
            f,
            "{} hits, {} loads, {} reads of the database; {begun} writes, of which {acknowledged} were acknowledged and \
             {committed} applied; {:?}; {} commits looked at",
            self.history.count(What::Hit),
            self.history.count(What::Load),
            self.history.count(What::Database),
            self.troubles,
            self.looked_at,
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_read_of_any_process_is_older_than_a_write_or_read_before_it() {
    let _turn = turn().await;
    let (seed, long) = (seed(), Duration::from_secs(amount(12, 90)));
    report(&format!("STOCKADE_SEED={seed}"));
    let mut run = Run::start(seed).await;
    let began = Instant::now();
    // Each kind of trouble comes once, whatever the seed is.
    let mut first = vec![
        Trouble::Gate,
        Trouble::Flush,
        Trouble::Freeze,
        Trouble::Restart,
        Trouble::Partition,
        Trouble::Stop,
        Trouble::Kill,
    ];
    while began.elapsed() < long || !first.is_empty() {
        let pause = run.random.random_range(100..700);
        sleep(Duration::from_millis(pause)).await;
        let trouble = first.pop().unwrap_or_else(|| run.next_trouble());
        run.make(trouble).await;
        run.look().await;
    }
    let run = run.end().await;
    report(&format!("{:?}: {run}", began.elapsed()));
    let wrongs = run.history.wrongs();
    let first: Vec<_> = wrongs.iter().chain(&run.broken).take(10).collect();
    assert!(
        wrongs.is_empty() && run.broken.is_empty(),
        "STOCKADE_SEED={seed}: {} operations that can't have been, {} looks at what must not be: {first:#?}",
        wrongs.len(),
        run.broken.len(),
    );
    let (hits, loads) = (run.history.count(What::Hit), run.history.count(What::Load));
    assert!(hits > 500 && hits * 10 > hits + loads, "too few hits to show anything: {hits} beside {loads} loads");
    assert!(run.looked_at > 0, "no commit was looked at");
    for key in 0..KEYS {
        let read = |record: &&Record| record.key == key && record.what == What::Hit;
        assert!(run.history.records.iter().any(|record| read(&record)), "no hit of key {key}");
    }
}
