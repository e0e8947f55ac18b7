use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use stockade::{
    Locks, Redis,
    lock::{Fence, Guard, LossReason, Released},
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    group::Group,
    support::{Item, LIMIT, retried, take_all, until},
};

const PROCESSES: usize = 3;
/// How many locks each process holds all the time.
const HELD: usize = 1_000;
/// How many locks all processes contend for all the time.
const CONTENDED: usize = 24;
/// How many locks of its own each process takes and releases all the time.
const OWN: usize = 32;
/// How many locks are only taken to find out whether a primary serves again.
const PROBES: usize = 64;
const SECTION: Duration = Duration::from_millis(100);
/// The lease of a lock that is handed over, until the new holder has renewed it.
const GRANT: Duration = Duration::from_secs(2);
pub(crate) const LEASE: Duration = Duration::from_secs(10);

fn held_name(number: usize) -> String {
    format!("held-{number}")
}

fn probe_name(number: usize) -> String {
    format!("probe-{number}")
}

/// Locks that are held and contended for, with the fences of their holders.
pub(crate) struct Load {
    processes: Vec<Locks>,
    held: Vec<(usize, Guard)>,
    wanted: Vec<Arc<Wanted>>,
    shares: HashMap<String, usize>,
    /// Whether a primary is lost. A holder then keeps its lock to the end, which shows whether it still has the lock.
    trouble: watch::Sender<bool>,
    workers: JoinSet<()>,
}

/// A lock that is taken again and again.
struct Wanted {
    name: String,
    inside: Mutex<Vec<(u64, Fence)>>,
    tally: Mutex<Tally>,
}

/// The figures of contended locks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sections: u64,
    /// How many sections ended with the lock lost.
    pub(crate) lost: u64,
    /// How often a holder entered while another still believed in its lease.
    pub(crate) beside: u64,
    /// How often a holder entered with a token that was not above the last.
    pub(crate) behind: u64,
    last_token: u64,
}

/// A lock that was held when a primary was lost.
pub(crate) struct Witness {
    fence: Fence,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On the primary that was lost, with the time that its lease had left.
    There(Duration),
    Elsewhere,
}

/// How many locks were held when a primary was lost, and how many of them were lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fate {
    pub(crate) there: (usize, usize),
    /// Locks that were handed over so recently that their holder had not renewed the short lease of a grant.
    pub(crate) just_granted: (usize, usize),
    pub(crate) elsewhere: (usize, usize),
}

impl Load {
    pub(crate) async fn start(group: &Group) -> Self {
        let mut processes = Vec::new();
        for _ in 0..PROCESSES {
            let redis = Redis::connect(group.url()).await.unwrap();
            processes.push(Locks::builder().lease(LEASE).redis(&redis));
        }
        for process in &processes {
            until("a connection", async || process.list(1).await.is_ok()).await;
        }
        let held = take_all(&processes, (0..PROCESSES * HELD).map(held_name)).await;
        let contended = (0..CONTENDED).map(|number| (Wanted::new(format!("contended-{number}")), &processes[..]));
        let own = processes.iter().enumerate().flat_map(|(process, locks)| {
            (0..OWN).map(move |number| (Wanted::new(format!("own-{process}-{number}")), std::slice::from_ref(locks)))
        });
        let wanted: Vec<_> = contended.chain(own).collect();
        let others = wanted.iter().map(|(lock, _)| lock.name.clone()).chain((0..PROBES).map(probe_name));
        let others = take_all(&processes, others).await;
        let shares = group.shares_of_locks().await;
        drop(others);
        let (trouble, troubled) = watch::channel(false);
        let mut workers = JoinSet::new();
        for (lock, wanting) in &wanted {
            for locks in *wanting {
                workers.spawn(Arc::clone(lock).work(locks.clone(), troubled.clone()));
            }
        }
        let wanted = wanted.into_iter().map(|(lock, _)| lock).collect();
        let held = held.into_iter().enumerate().collect();
        let load = Self { processes, held, wanted, shares, trouble, workers };
        load.until_all_go_on().await;
        load
    }

    /// The locks that are held now, to be checked later. From here on no holder releases its lock.
    pub(crate) fn at_the_loss(&self, share: usize) -> Vec<Witness> {
        self.trouble.send_replace(true);
        let held = self.held.iter().map(|(number, guard)| (held_name(*number), guard.fence()));
        let inside = self.wanted.iter().flat_map(|lock| lock.believers().map(|fence| (lock.name.clone(), fence)));
        let witness = |(name, fence): (String, Fence)| {
            let there = self.shares[&name] == share;
            Witness { place: if there { Place::There(fence.remaining()) } else { Place::Elsewhere }, fence }
        };
        held.chain(inside).map(witness).collect()
    }

    /// Waits until a free lock of the share can be taken.
    pub(crate) async fn until_served(&self, share: usize) {
        let names = (0..PROBES).map(probe_name).filter(|name| self.shares[name] == share);
        let limit = Instant::now() + LIMIT;
        for name in names.collect::<Vec<_>>().iter().cycle() {
            match self.processes[0].write(&Item(name.clone())).wait(Duration::ZERO).acquire().await {
                Ok(guard) => return drop(guard),
                Err(error) => assert!(Instant::now() < limit, "never served again: {error}"),
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until each lock that was held is renewed on the new primary or known to be lost.
    pub(crate) async fn fate(&self, held: &[Witness], since: Instant) -> Fate {
        until("every holder knows", async || {
            let knows = |fence: &Fence| fence.loss().is_some() || fence.remaining() + since.elapsed() > LEASE;
            held.iter().all(|witness| knows(&witness.fence))
        })
        .await;
        self.trouble.send_replace(false);
        let mut fate = Fate::default();
        for Witness { fence, place } in held {
            let (held, lost) = match place {
                Place::There(left) if *left <= GRANT => &mut fate.just_granted,
                Place::There(_) => &mut fate.there,
                Place::Elsewhere => &mut fate.elsewhere,
            };
            *held += 1;
            // Some have been given back since.
            *lost += usize::from(fence.loss().is_some_and(|reason| reason != LossReason::Released));
        }
        fate
    }

    /// How many of the locks that are held all the time are lost.
    pub(crate) fn lost(&self) -> usize {
        self.held.iter().filter(|(_, guard)| guard.loss().is_some()).count()
    }

    /// Takes lost locks again, and checks on the servers that each lock has exactly its own holder. Returns how many
    /// locks were lost.
    pub(crate) async fn check_holders(&mut self) -> usize {
        let mut lost = 0;
        for (number, guard) in &mut self.held {
            if guard.loss().is_some() {
                lost += 1;
                let (locks, item) = (&self.processes[*number % PROCESSES], Item(held_name(*number)));
                *guard = retried(async || locks.write(&item).acquire().await).await;
            }
        }
        let locks = &self.processes[0];
        for (number, guard) in &self.held {
            let seen = retried(async || locks.inspect(&Item(held_name(*number))).await).await;
            let tokens: Vec<_> = seen.holders.iter().map(|party| party.token).collect();
            assert_eq!(tokens, [Some(guard.token())], "holders of {}", held_name(*number));
            assert!(guard.is_held());
        }
        lost
    }

    /// Waits until every task that contends for a lock has had it again.
    pub(crate) async fn until_all_go_on(&self) {
        let before: Vec<_> = self.wanted.iter().map(|lock| lock.sections()).collect();
        let turns = 2 * PROCESSES as u64;
        until("all are served", async || {
            self.wanted.iter().zip(&before).all(|(lock, before)| lock.sections() >= before + turns)
        })
        .await;
    }

    /// Releases all locks, and returns the figures of the contended ones.
    pub(crate) async fn end(mut self) -> Tally {
        self.workers.shutdown().await;
        drop(self.held);
        join_all(self.processes.iter().map(|process| process.shutdown(LIMIT))).await;
        let mut sum = Tally::default();
        for lock in &self.wanted {
            let tally = lock.tally.lock().unwrap();
            sum.sections += tally.sections;
            sum.lost += tally.lost;
            sum.beside += tally.beside;
            sum.behind += tally.behind;
        }
        sum
    }
}

impl Wanted {
    fn new(name: String) -> Arc<Self> {
        Arc::new(Self { name, inside: Mutex::default(), tally: Mutex::default() })
    }

    fn sections(&self) -> u64 {
        self.tally.lock().unwrap().sections
    }

    fn believers(&self) -> impl Iterator<Item = Fence> + use<> {
        let inside = self.inside.lock().unwrap();
        let believers: Vec<_> = inside.iter().map(|(_, fence)| fence.clone()).collect();
        believers.into_iter().filter(|fence| fence.loss().is_none())
    }

    /// Runs one section after the other.
    async fn work(self: Arc<Self>, locks: Locks, mut troubled: watch::Receiver<bool>) {
        loop {
            let Ok(guard) = locks.write(&Item(self.name.clone())).wait(LIMIT).acquire().await else {
                // A refusal comes at once, so pause before the next attempt.
                sleep(Duration::from_millis(20)).await;
                continue;
            };
            let number = self.enter(guard.fence());
            tokio::select! {
                _ = guard.lost() => {}
                () = sleep(SECTION) => {
                    tokio::select! {
                        _ = guard.lost() => {}
                        _ = troubled.wait_for(|troubled| !troubled) => {}
                    }
                }
            }
            let lost = guard.loss().is_some();
            self.inside.lock().unwrap().retain(|(other, _)| *other != number);
            let released = guard.release().await;
            if lost || matches!(released, Ok(Released::Lost)) {
                self.tally.lock().unwrap().lost += 1;
            }
        }
    }

    fn enter(&self, fence: Fence) -> u64 {
        let mut tally = self.tally.lock().unwrap();
        let mut inside = self.inside.lock().unwrap();
        let token = fence.token().get();
        tally.sections += 1;
        tally.beside += u64::from(inside.iter().any(|(_, other)| other.loss().is_none()));
        tally.behind += u64::from(token <= tally.last_token);
        tally.last_token = token;
        inside.push((tally.sections, fence));
        tally.sections
    }
}
