//! A fleet of processes whose network and server fail at random. No two of them may believe in one lock.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use stockade_testbed::{Fault, Proxy};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{LIMIT, World, connected, key, write};
use crate::{
    clock::Instant,
    redis::Redis,
    resource::Key,
    store::{Attempt, LockError, LockStore, Mode, Ownership, redis::RedisStore},
};

/// How often the locks are held.
const ENOUGH: u64 = 30_000;
/// A machine that is slow ends with fewer.
const LONGEST: Duration = Duration::from_secs(20);
const PERMITS: u32 = 2;

/// A time in which a process believed that it held the lock, by the clock of the machine.
#[derive(Clone, Copy, Debug)]
struct Belief {
    mode: Mode,
    token: u64,
    from: Instant,
    to: Instant,
}

struct Fleet {
    stores: Vec<Arc<RedisStore>>,
    keys: Vec<Key>,
    held: AtomicU64,
    /// Calls that the server certainly answered: attempts that ended otherwise than by a failure, and releases.
    calls: AtomicU64,
    beliefs: Mutex<BTreeMap<String, Vec<Belief>>>,
    began: Instant,
}

impl Fleet {
    fn is_over(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= ENOUGH || self.began.elapsed() > LONGEST
    }

    async fn member(self: Arc<Self>, process: usize, mut random: StdRng) {
        while !self.is_over() {
            self.attempt(&self.stores[process], &mut random).await;
        }
    }

    async fn attempt(&self, store: &Arc<RedisStore>, random: &mut StdRng) {
        let key = &self.keys[random.random_range(0..self.keys.len())];
        let mode = match random.random_range(0..10) {
            0..4 => Mode::Read,
            4..6 => Mode::Permit,
            _ => Mode::Write,
        };
        let wait = match random.random_range(0..10) {
            0..2 => Duration::ZERO,
            2..5 => Duration::from_millis(random.random_range(1..40)),
            _ => Duration::from_secs(3),
        };
        let lease = Duration::from_millis(random.random_range(120..700));
        let acquire = store.acquire(Attempt { mode, permits: PERMITS, wait, lease, ..write(key) });
        let acquired = if random.random_bool(0.15) {
            // The limit drops the attempt at a random point.
            let Ok(acquired) = timeout(Duration::from_micros(random.random_range(0..20_000)), acquire).await else {
                return;
            };
            acquired
        } else {
            timeout(LIMIT, acquire).await.expect("an attempt never ends")
        };
        match acquired {
            Ok(ownership) => {
                self.held.fetch_add(1, Ordering::Relaxed);
                self.calls.fetch_add(1, Ordering::Relaxed);
                self.hold(store, &ownership, random).await;
            }
            // While the breaker is open the store refuses at once, so pause.
            Err(LockError::Unavailable { .. }) => sleep(Duration::from_millis(4)).await,
            Err(_) => {
                self.calls.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn hold(&self, store: &Arc<RedisStore>, ownership: &Arc<Ownership>, random: &mut StdRng) {
        let from = Instant::now();
        let forgets = random.random_bool(0.01);
        if forgets {
            sleep(ownership.deadline().remaining()).await;
        } else {
            sleep(Duration::from_micros(random.random_range(0..2000))).await;
            if random.random_bool(0.2) {
                let _ = store.renew(std::slice::from_ref(ownership)).await;
                sleep(Duration::from_micros(random.random_range(0..2000))).await;
            }
        }
        let deadline = ownership.deadline();
        let lost = ownership.loss();
        let to = Instant::now().min(deadline);
        // The server keeps its data and nobody forces a release, so a lock can only expire.
        assert!(lost.is_none() || to == deadline, "taken from a live holder: {ownership:?}");
        if from < to {
            let belief = Belief { mode: ownership.mode(), token: ownership.token.get(), from, to };
            self.beliefs.lock().unwrap().entry(ownership.key.to_string()).or_default().push(belief);
        }
        match random.random_range(0..10) {
            _ if forgets => {}
            0..6 => {
                let released = timeout(LIMIT, store.release(ownership)).await.expect("a release never ends");
                self.calls.fetch_add(u64::from(released.is_ok()), Ordering::Relaxed);
            }
            6..8 => {
                // A release that is dropped leaves the rest to the background, as guards do.
                let _ = timeout(Duration::from_micros(random.random_range(0..500)), store.release(ownership)).await;
                store.release_detached(Arc::clone(ownership));
            }
            _ => store.release_detached(Arc::clone(ownership)),
        }
    }
}

/// Breaks the network of one process or the server, again and again.
async fn break_things(world: Arc<World>, proxies: Arc<Vec<Proxy>>, fleet: Arc<Fleet>, mut random: StdRng) {
    while !fleet.is_over() {
        sleep(Duration::from_millis(random.random_range(20..150))).await;
        let proxy = &proxies[random.random_range(0..proxies.len())];
        let kind = random.random_range(0..20);
        let mut fault = async |fault, longest| {
            proxy.set(fault);
            sleep(Duration::from_millis(random.random_range(1..longest))).await;
            proxy.set(Fault::None);
        };
        match kind {
            0..6 => proxy.reset_connections(),
            6..8 => fault(Fault::Reset, 300).await,
            8..12 => fault(Fault::Hole, 700).await,
            12..14 => fault(Fault::DropReplies, 100).await,
            14..16 => fault(Fault::Delay(Duration::from_millis(8)), 300).await,
            shorter => {
                // Shorter than any lease, or longer than all.
                let pause = if shorter < 19 { 10..100 } else { 700..1000 };
                world.server.pause().unwrap();
                sleep(Duration::from_millis(random.random_range(pause))).await;
                world.server.resume().unwrap();
            }
        }
    }
}

/// What is wrong with the beliefs in one resource, if anything. Only readers that were granted together, or holders of
/// permits, may learn of their grants in another order.
fn conflict(beliefs: &mut [Belief]) -> Option<String> {
    beliefs.sort_by_key(|belief| belief.from);
    let mut open: Vec<Belief> = Vec::new();
    // The highest token of those whose belief has ended, by mode.
    let mut latest = [0; 3];
    for belief in beliefs {
        open.retain(|other| {
            let over = other.to <= belief.from;
            if over {
                let latest = &mut latest[other.mode as usize];
                *latest = (*latest).max(other.token);
            }
            !over
        });
        let shares = |mode: usize| mode == belief.mode as usize && belief.mode != Mode::Write;
        if let Some(other) = open.iter().find(|other| !shares(other.mode as usize)) {
            return Some(format!("two at once: {other:?} and {belief:?}"));
        }
        if belief.mode == Mode::Permit && open.len() >= PERMITS as usize {
            return Some(format!("more than {PERMITS} permits: {open:?} and {belief:?}"));
        }
        let before = (0..3).filter(|mode| !shares(*mode)).map(|mode| latest[mode]).max().unwrap_or_default();
        if belief.token <= before {
            return Some(format!("a token that is not above {before}: {belief:?}"));
        }
        open.push(*belief);
    }
    None
}

#[test]
fn beliefs_that_overlap_are_noticed() {
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let belief = |mode, token, from, to| Belief { mode, token, from: at(from), to: at(to) };
    let (read, write, permit) = (Mode::Read, Mode::Write, Mode::Permit);
    let fine = [belief(write, 1, 0, 5), belief(read, 3, 5, 6), belief(read, 2, 7, 20), belief(write, 9, 20, 21)];
    assert_eq!(conflict(&mut fine.to_vec()), None);
    let fine = [belief(permit, 2, 0, 5), belief(permit, 1, 1, 9), belief(permit, 3, 5, 9), belief(read, 4, 9, 10)];
    assert_eq!(conflict(&mut fine.to_vec()), None);
    assert!(conflict(&mut [1, 2, 3].map(|token| belief(permit, token, token, 9))).is_some());
    assert!(conflict(&mut [belief(permit, 1, 0, 5), belief(read, 2, 4, 9)]).is_some());
    assert!(conflict(&mut [belief(permit, 3, 0, 5), belief(read, 2, 6, 9)]).is_some());
    assert!(conflict(&mut [belief(write, 1, 0, 5), belief(write, 2, 4, 9)]).is_some());
    assert!(conflict(&mut [belief(read, 1, 0, 5), belief(write, 2, 4, 9)]).is_some());
    assert!(conflict(&mut [belief(write, 1, 0, 5), belief(read, 2, 4, 9)]).is_some());
    assert!(conflict(&mut [belief(write, 3, 0, 5), belief(write, 2, 6, 9)]).is_some());
    assert!(conflict(&mut [belief(write, 3, 0, 5), belief(write, 3, 6, 9)]).is_some());
    assert!(conflict(&mut [belief(write, 3, 0, 5), belief(read, 2, 6, 9)]).is_some());
    assert!(conflict(&mut [belief(read, 3, 0, 5), belief(write, 2, 6, 9)]).is_some());
}

/// Lets `processes` with so many `tasks` each compete for `keys` resources under faults, and judges all of it. Returns how many calls the
/// server certainly answered, and how many scripts it ran.
#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
async fn compete(processes: usize, tasks: usize, keys: usize) -> (u64, u64) {
    let seed = super::seed();
    println!("STOCKADE_SEED={seed}");
    let world = Arc::new(World::start().await);
    let (mut proxies, mut stores) = (Vec::new(), Vec::new());
    for _ in 0..processes {
        let proxy = Proxy::start(world.server.addr()).await.unwrap();
        stores.push(connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await);
        proxies.push(proxy);
    }
    let proxies = Arc::new(proxies);
    let keys = (0..keys).map(|n| key(&format!("fleet-{n}"))).collect();
    let (held, calls) = (AtomicU64::new(0), AtomicU64::new(0));
    let (beliefs, began) = (Mutex::default(), Instant::now());
    let fleet = Arc::new(Fleet { stores, keys, held, calls, beliefs, began });
    let random = |n| StdRng::seed_from_u64(seed.wrapping_add(n));
    let mut members = JoinSet::new();
    for (n, process) in (0..).zip((0..processes).cycle().take(tasks * processes)) {
        members.spawn(Arc::clone(&fleet).member(process, random(n)));
    }
    let breaking = break_things(Arc::clone(&world), Arc::clone(&proxies), Arc::clone(&fleet), random(u64::MAX));
    members.spawn(breaking);
    while let Some(ended) = members.join_next().await {
        if let Err(error) = ended {
            panic!("STOCKADE_SEED={seed}: {error}");
        }
    }
    let scripts = world.server.calls_of("evalsha").await.unwrap();
    let (held, calls) = (fleet.held.load(Ordering::Relaxed), fleet.calls.load(Ordering::Relaxed));
    for (key, beliefs) in fleet.beliefs.lock().unwrap().iter_mut() {
        if let Some(conflict) = conflict(beliefs) {
            panic!("STOCKADE_SEED={seed}, {key}: {conflict}");
        }
    }
    println!("held {held} times, by {calls} calls, in {scripts} scripts and {:?}", began.elapsed());
    assert!(held > 500, "{held}: too few to say anything");
    world.until_nothing_is_left().await;
    match Arc::try_unwrap(world) {
        Ok(world) => world.end_behind(proxies).await,
        Err(_) => panic!("a task still has the world"),
    }
    (calls, scripts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_under_faults_never_believes_twice_and_leaves_nothing() {
    compete(4, 8, 3).await;
}

/// So many tasks that many of their calls become one command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_under_faults_never_believes_twice_and_leaves_nothing() {
    let (calls, scripts) = compete(2, 400, 400).await;
    assert!(scripts < calls, "{scripts} scripts for {calls} calls: they did not come together");
}
