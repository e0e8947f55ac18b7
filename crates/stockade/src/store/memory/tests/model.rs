//! Random operations on the table under an artificial clock. All invariants are checked after each operation.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    clock::Instant,
    resource::Key,
    store::{
        Attempt, Force, Handed, LockError, Mode, Owner, Ownership, Token,
        memory::{
            attempts::{Entered, Settled},
            lock::{Asker, Kind, Lock, Place},
            table::Table,
        },
    },
};

const MAX_WAITERS: u32 = 6;

/// One attempt, and whether it waits or holds.
struct Client {
    asker: Asker,
    attempt: Attempt,
    stage: Stage,
}

enum Stage {
    Waits(Place),
    Holds(Arc<Ownership>),
}

impl Client {
    fn place(&self) -> Option<(Owner, u64)> {
        if let Stage::Waits(place) = &self.stage { Some((self.asker.owner.clone(), place.seq)) } else { None }
    }
}

struct Model {
    rng: StdRng,
    now: Instant,
    table: Table,
    clients: Vec<Client>,
    next: u64,
    /// The highest token that was given out for each key.
    highest: HashMap<Key, u64>,
    /// All grants that were ever seen. A waiter whose grant expired is granted again, with another token.
    granted: HashSet<(Owner, Token)>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let (rng, table) = (StdRng::seed_from_u64(seed), Table::default());
        Self { rng, now, table, clients: Vec::new(), next: 0, highest: HashMap::new(), granted: HashSet::new() }
    }

    fn key(&mut self) -> Key {
        Key::new("model", ["a", "b"][self.rng.random_range(0..2)]).unwrap()
    }

    fn step(&mut self) {
        let longest = if self.rng.random_bool(0.03) { 3_000 } else { 120 };
        self.now = self.now + Duration::from_millis(self.rng.random_range(0..longest));
        self.table.expire(self.now);
        self.check();
        match self.rng.random_range(0..100) {
            0..40 => self.enter(),
            40..60 => self.settle(),
            60..75 => self.release(),
            75..85 => self.cancel(),
            85..91 => self.renew(),
            91..93 => self.downgrade(),
            93..95 => self.adopt(),
            _ => {
                let key = self.key();
                let force = if self.rng.random() { Force::Now } else { Force::AfterLeases };
                let forced = self.table.force(self.now, &key, force).unwrap();
                // The token is above all earlier ones, and below those of waiters that the same step serves.
                let highest = self.highest.entry(key).or_default();
                assert!(forced.token.get() > *highest);
                *highest = forced.token.get();
            }
        }
        self.check();
    }

    fn enter(&mut self) {
        let number = self.next;
        self.next += 1;
        let asker = Asker { owner: Owner::new(format!("model.{number:011}")), number };
        let attempt = Attempt {
            key: self.key(),
            mode: [Mode::Read, Mode::Write, Mode::Permit][self.rng.random_range(0..3)],
            permits: if self.rng.random_bool(0.9) { 3 } else { 2 },
            lease: Duration::from_millis(self.rng.random_range(100..5_000)),
            wait: if self.rng.random_bool(0.1) { Duration::ZERO } else { Duration::MAX },
            max_waiters: MAX_WAITERS,
            tag: Arc::default(),
            yields: None,
        };
        let present = self.table.locks.get(&attempt.key).and_then(Lock::capacity);
        let stage = match self.table.enter(self.now, &asker, &attempt) {
            Ok(Entered::Held(ownership)) => Stage::Holds(ownership),
            Ok(Entered::Queued(place)) => Stage::Waits(place),
            Err(LockError::Busy { .. }) => return assert!(attempt.wait.is_zero()),
            Err(LockError::Capacity { asked, present: told }) => {
                return assert!(asked == attempt.permits && Some(told) == present && told != asked);
            }
            // The queue exceeds its limit only by waiters that return to their place after their grant expired.
            Err(LockError::QueueFull { waiters, .. }) => return assert!(waiters >= u64::from(MAX_WAITERS)),
            Err(error) => panic!("{error}"),
        };
        self.clients.push(Client { asker, attempt, stage });
    }

    /// Removes and returns a random client: one that waits, or one that holds.
    fn take(&mut self, waiting: bool) -> Option<Client> {
        let of_stage = |client: &Client| matches!(client.stage, Stage::Waits(_)) == waiting;
        let candidates: Vec<_> = (0..self.clients.len()).filter(|n| of_stage(&self.clients[*n])).collect();
        let chosen = *candidates.get(self.rng.random_range(0..candidates.len().max(1)))?;
        Some(self.clients.swap_remove(chosen))
    }

    fn settle(&mut self) {
        let Some(mut client) = self.take(true) else { return };
        if let Stage::Waits(place) = &client.stage {
            match self.table.settle(self.now, &client.asker, &client.attempt, place) {
                Settled::Held(ownership) => client.stage = Stage::Holds(ownership),
                Settled::Waiting => {}
                Settled::Closed => panic!("nobody closed it"),
            }
        }
        self.clients.push(client);
    }

    fn release(&mut self) {
        let Some(client) = self.take(false) else { return };
        self.table.release(self.now, &client.attempt.key, &client.asker.owner, None);
    }

    fn cancel(&mut self) {
        let Some(client) = self.take(true) else { return };
        if let Stage::Waits(place) = &client.stage {
            self.table.release(self.now, &client.attempt.key, &client.asker.owner, Some(place));
        }
    }

    fn renew(&mut self) {
        let Some(client) = self.take(false) else { return };
        if let Stage::Holds(ownership) = &client.stage {
            self.table.renew(self.now, ownership);
        }
        self.clients.push(client);
    }

    fn downgrade(&mut self) {
        let Some(mut client) = self.take(false) else { return };
        if let Stage::Holds(ownership) = &client.stage
            && client.attempt.mode != Mode::Permit
            && self.table.downgrade(self.now, ownership).is_ok()
        {
            client.attempt.mode = Mode::Read;
            let readers = &self.table.locks[&client.attempt.key];
            assert!(readers.kind == Kind::Read && readers.holders[&client.asker.owner].token == ownership.token);
        }
        self.clients.push(client);
    }

    fn adopt(&mut self) {
        let Some(mut client) = self.take(false) else { return };
        if let Stage::Holds(ownership) = &client.stage {
            let number = self.next;
            self.next += 1;
            let asker = Asker { owner: Owner::new(format!("heir.{number:011}")), number };
            let handed = Handed::of(ownership);
            match self.table.adopt(self.now, &asker, &handed) {
                Ok(adopted) => {
                    assert!(adopted.token > ownership.token);
                    assert!(self.table.adopt(self.now, &asker, &handed).is_err(), "adopted twice");
                    self.granted.insert((asker.owner.clone(), adopted.token));
                    (client.asker, client.stage) = (asker, Stage::Holds(adopted));
                }
                Err(LockError::HandoverVoid) => assert!(ownership.loss().is_some() || self.lost(&client)),
                Err(error) => panic!("{error}"),
            }
        }
        self.clients.push(client);
    }

    fn lost(&self, client: &Client) -> bool {
        let lock = self.table.locks.get(&client.attempt.key);
        lock.is_none_or(|lock| !lock.holders.contains_key(&client.asker.owner))
    }

    fn check(&mut self) {
        std::mem::take(&mut self.table.effects).apply();
        // A client that entered without waiting has no place.
        let places: HashMap<Owner, u64> = self.clients.iter().filter_map(Client::place).collect();
        let mut leases = BTreeSet::new();
        for (key, lock) in &self.table.locks {
            assert!(!lock.holders.is_empty() || !lock.queue.is_empty(), "an empty lock is kept");
            let most = match lock.kind {
                Kind::Read => usize::MAX,
                Kind::Write => 1,
                Kind::Permit(permits) => permits as usize,
            };
            assert!(lock.holders.len() <= most, "{} hold as {:?}", lock.holders.len(), lock.kind);
            if let Some((_, head)) = lock.queue.first_key_value() {
                assert!(!lock.admits(head.wants), "the head of the queue could hold");
            }
            leases.extend(lock.holders.values().map(|holder| (holder.ends, holder.number)));
            assert!(lock.holders.values().all(|holder| holder.ends > self.now), "a lease that is over holds");

            let mut granted: Vec<_> = lock
                .holders
                .iter()
                .filter(|(owner, holder)| self.granted.insert(((*owner).clone(), holder.token)))
                .map(|(owner, holder)| (holder.token, places.get(owner).copied().unwrap_or(u64::MAX)))
                .collect();
            granted.sort_unstable();
            let highest = self.highest.entry(key.clone()).or_default();
            assert!(granted.iter().all(|(token, _)| token.get() > *highest), "a token that is not above {highest}");
            // Waiters are granted in the order of their places, and none before a waiter that still waits.
            assert!(granted.is_sorted_by_key(|(_, place)| *place), "served out of order: {granted:?}");
            if let (Some((_, last)), Some((left, _))) = (granted.last(), lock.queue.first_key_value()) {
                assert!(last < left, "{last} was served before {left}");
            }
            if let Some((token, _)) = granted.last() {
                *highest = token.get();
            }
        }
        assert_eq!(leases, self.table.leases.ends(), "leases and holders differ");
        for client in &self.clients {
            let (key, owner) = (&client.attempt.key, &client.asker.owner);
            let holder = self.table.locks.get(key).and_then(|lock| lock.holders.get(owner));
            match &client.stage {
                Stage::Holds(ownership) => {
                    let told = ownership.lost().now_or_never().is_some();
                    match holder {
                        // A holder whose lease may not be renewed learns of its loss before the lease ends.
                        Some(holder) => assert!(!told || holder.runs_out, "told of a loss and yet the holder"),
                        None => assert!(told, "lost and not told"),
                    }
                }
                Stage::Waits(place) if holder.is_some_and(|holder| holder.granted == self.now) => {
                    assert!(place.wake.notified().now_or_never().is_some(), "granted and not woken");
                    place.wake.notify_one();
                }
                Stage::Waits(_) => {}
            }
        }
    }

    /// All clients leave, and the table must be empty.
    fn finish(mut self) {
        for client in std::mem::take(&mut self.clients) {
            let place = if let Stage::Waits(place) = &client.stage { Some(place) } else { None };
            self.table.release(self.now, &client.attempt.key, &client.asker.owner, place);
        }
        self.table.expire(self.now + Duration::from_secs(10));
        assert!(self.table.locks.is_empty() && self.table.leases.ends().is_empty(), "left behind");
    }
}

#[test]
fn random_operations_keep_every_invariant() {
    for seed in 0..40 {
        let mut model = Model::new(seed);
        for step in 0..400 {
            let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.step()));
            assert!(stepped.is_ok(), "broken by step {step} of seed {seed}");
        }
        model.finish();
    }
}
