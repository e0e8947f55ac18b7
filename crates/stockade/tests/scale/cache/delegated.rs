//! Histories of four processes that read under delegations while they are killed, stopped and cut off from the locks:
//! no read is older than a write that was acknowledged before it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use stockade_testbed::{Fault, Proxy};
use tokio::time::{Instant, sleep};

use super::{
    PROCESSES, amount,
    history::History,
    item::{self, KEYS},
    record::{Log, What, now},
    seed,
    site::{Site, all_go_on},
};
use crate::{
    child::Child,
    support::{LIMIT, report, turn},
};

/// How long processes may go on as before after a failure that they notice by their connections. In nanoseconds.
const NOTICED: u64 = 3_000_000_000;

/// The faults of the processes and the stores meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// A process is killed, and another takes its place.
    Kill,
    /// A process stands still, for longer than its leases at times.
    Stop,
    /// A process does not reach the locks, and hears nothing from there.
    Partition,
    /// The store of the locks is killed, and comes back empty.
    Restart,
    /// The store of the cache stands still for a while, so that the relays have to tell it of writes.
    Freeze,
}

/// A process, its way to the locks, and the number of its log.
struct Process {
    child: Child,
    locks: Proxy,
    number: u8,
}

struct Run {
    site: Site,
    random: StdRng,
    processes: Vec<Process>,
    logs: Vec<PathBuf>,
    folder: tempfile::TempDir,
    history: History,
    troubles: BTreeMap<Trouble, usize>,
}

impl Run {
    async fn start(seed: u64) -> Self {
        let mut run = Self {
            site: Site::start(item::SCHEMA).await,
            random: StdRng::seed_from_u64(seed),
            processes: Vec::new(),
            logs: Vec::new(),
            folder: tempfile::tempdir().unwrap(),
            history: History::default(),
            troubles: BTreeMap::new(),
        };
        for _ in 0..PROCESSES {
            run.add_process().await;
        }
        run
    }

    async fn add_process(&mut self) {
        let log = self.folder.path().join(self.logs.len().to_string());
        let role = format!("visits {} {}", log.display(), self.random.random::<u64>());
        let locks = Proxy::start(self.site.locks.addr()).await.unwrap();
        let child = self.site.process_at(&role, self.site.redis.url(), locks.url_for(&self.site.locks.url())).await;
        self.processes.push(Process { child, locks, number: self.logs.len().try_into().unwrap() });
        self.logs.push(log);
    }

    fn next_trouble(&mut self) -> Trouble {
        match self.random.random_range(0..100) {
            0..30 => Trouble::Kill,
            30..60 => Trouble::Stop,
            60..90 => Trouble::Partition,
            90..95 => Trouble::Restart,
            _ => Trouble::Freeze,
        }
    }

    async fn make(&mut self, trouble: Trouble) {
        *self.troubles.entry(trouble).or_default() += 1;
        let place = self.random.random_range(0..PROCESSES);
        // The pause may be shorter than a lease, or longer than that of a delegation.
        let pause = Duration::from_millis(self.random.random_range(200..2500));
        let (number, begin) = (self.processes[place].number, now());
        match trouble {
            Trouble::Kill => {
                self.processes.swap_remove(place).child.kill().await;
                self.add_process().await;
            }
            Trouble::Stop => {
                self.processes[place].child.pause().await;
                sleep(pause).await;
                self.processes[place].child.resume();
            }
            Trouble::Partition => {
                self.processes[place].locks.set(Fault::Hole);
                sleep(pause).await;
                self.processes[place].locks.set(Fault::None);
                // What was held up arrives now, or is lost.
                if self.random.random_bool(0.5) {
                    self.processes[place].locks.reset_connections();
                }
            }
            Trouble::Restart => {
                self.site.locks.kill().await.unwrap();
                self.site.locks.restart().await.unwrap();
            }
            Trouble::Freeze => {
                self.site.redis.pause().unwrap();
                sleep(pause / 4).await;
                self.site.redis.resume().unwrap();
            }
        }
        match trouble {
            Trouble::Kill | Trouble::Stop | Trouble::Partition => self.history.disturbed.push((number, begin, now())),
            Trouble::Restart | Trouble::Freeze => self.history.losses.push((begin, now() + NOTICED)),
        }
    }

    /// How much all processes have noted so far.
    fn noted(&self) -> usize {
        self.logs.iter().map(|log| Log::count(log)).sum()
    }

    /// Waits for the end of the processes, and reads their logs.
    async fn end(mut self) -> Self {
        for done in ["written", "over"] {
            all_go_on(self.processes.iter_mut().map(|process| &mut process.child).collect(), done).await;
        }
        self.processes.clear();
        self.site.until_nothing_is_left().await;
        self.history.read(&self.site.pool, &self.logs).await;
        self
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_read_under_a_delegation_is_older_than_a_write_acknowledged_before_it() {
    let _turn = turn().await;
    let (seed, long, delegated) = (seed(), Duration::from_secs(amount(12, 90)), amount(100_000, 1_000_000));
    report(&format!("STOCKADE_SEED={seed}"));
    let mut run = Run::start(seed).await;
    let began = Instant::now();
    // Each kind of trouble comes once, whatever the seed is.
    let mut first = vec![Trouble::Freeze, Trouble::Restart, Trouble::Partition, Trouble::Stop, Trouble::Kill];
    // About nine of ten records are reads under a delegation.
    while began.elapsed() < long || !first.is_empty() || run.noted() < delegated * 10 / 9 {
        assert!(began.elapsed() < long + 3 * LIMIT, "too few reads: {}", run.noted());
        let pause = run.random.random_range(100..700);
        sleep(Duration::from_millis(pause)).await;
        let trouble = first.pop().unwrap_or_else(|| run.next_trouble());
        run.make(trouble).await;
    }
    let run = run.end().await;
    let counts =
        [What::Local, What::Hit, What::Load, What::Committing, What::Acknowledged].map(|what| run.history.count(what));
    let [local, hits, loads, begun, acknowledged] = counts;
    report(&format!(
        "{:?}: {local} reads under a delegation, {hits} hits, {loads} loads; {begun} writes, of which {acknowledged} were \
         acknowledged; {:?}",
        began.elapsed(),
        run.troubles,
    ));
    let wrongs = run.history.wrongs();
    let first: Vec<_> = wrongs.iter().take(10).collect();
    assert!(wrongs.is_empty(), "STOCKADE_SEED={seed}: {} operations that can't have been: {first:#?}", wrongs.len());
    assert!(local >= delegated, "too few reads under a delegation: {local}");
    assert!(acknowledged > 100, "too few writes to show anything: {acknowledged}");
    for key in 0..KEYS {
        let read = |what| run.history.records.iter().any(|record| record.key == key && record.what == what);
        assert!(read(What::Local) && read(What::Acknowledged), "key {key} was not read or not written");
    }
}
