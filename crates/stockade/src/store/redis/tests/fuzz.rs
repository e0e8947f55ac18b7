//! Random calls of the scripts by processes that start, forget, are late and die. The keys are checked after each call.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use redis::{AsyncConnectionConfig, Cmd, Value, aio::MultiplexedConnection};
use stockade_testbed::RedisServer;

use super::{LIMIT, World, key, seed, seen::Seen};
use crate::{
    clock::Instant,
    redis::{Joins, Script, believed, believed_until, evalsha, script},
    resource::Key,
    store::{
        Attempt, Force, Handed, Mode, Owner, Token,
        redis::{
            commands::{
                calls::{self, Handing},
                keys::Keys,
                replies::{Acquired, Adopted, Left, Multi, Renewed, forced},
            },
            scripts::{ACQUIRE, ADOPT, DOWNGRADE, FORCE, MULTI, RELEASE, RENEW},
        },
    },
};

static LOOK: Script = script!("look", "scripts/invariants.lua");

/// How many lock scripts one run of the test calls. The checks of the keys are not counted.
const CALLS: u64 = 100_000;
const FUZZERS: u64 = 5;
/// How many calls a state has whose server's clock jumps.
const STEPPED: u64 = 10_000;
/// How many calls are sent together.
const TOGETHER: usize = 8;

struct Caller {
    owner: Owner,
    attempt: Attempt,
    wait: Duration,
    seq: u64,
    token: Option<Token>,
    /// Until when the caller believes that it holds the resource.
    believes: Option<Instant>,
}

impl Caller {
    /// The owner that adopts this one's lock, in another process.
    fn heir(&self) -> Owner {
        let (process, number) = self.owner.as_str().rsplit_once('.').unwrap();
        let (process, number): (u32, u64) = (process[13..].parse().unwrap(), number.parse().unwrap());
        Owner::new(format!("fuzz-process-{:03}.{:011}", (process + 1) % 4, number + 1_000_000_000))
    }

    fn handed(&self) -> Handed {
        Handed {
            key: self.attempt.key.clone(),
            owner: self.owner.clone(),
            mode: self.attempt.mode,
            token: self.token.unwrap_or(Token::MAX),
            lease: self.attempt.lease,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Ask(u64),
    /// An attempt on two resources: both or none.
    AskAtOnce(u64, u64),
    Leave(u64),
    /// A release that is sent a second time.
    LeaveAgain(u64),
    Renew(u64),
    Downgrade(u64),
    /// The lock has another owner from then on.
    Adopt(u64),
    Force(usize, Force),
}

struct FuzzState {
    connection: MultiplexedConnection,
    shas: HashMap<&'static str, String>,
    names: Keys,
    keys: Vec<Key>,
    /// What the last check of each key saw.
    seen: Vec<Seen>,
    /// The highest token in any reply, by key.
    tokens: Vec<u64>,
    random: StdRng,
    callers: HashMap<u64, Caller>,
    next: u64,
    handing: Handing<'static>,
    calls: u64,
    /// How often two resources were taken together.
    taken_at_once: u64,
    /// How many commands had several calls.
    joined: u64,
    /// Whether the server's clock jumps. Then leases may end at any time, and beliefs are not checked.
    stepped: bool,
    /// Names the state in the message of a failure.
    title: String,
}

impl FuzzState {
    async fn new(world: &World, seed: u64, number: u64) -> Self {
        let client = redis::Client::open(world.server.url()).unwrap();
        // A busy machine may take longer than the client's half second for a round.
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(LIMIT));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut shas = HashMap::new();
        for script in [&ACQUIRE, &MULTI, &RELEASE, &RENEW, &FORCE, &DOWNGRADE, &ADOPT, &LOOK] {
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(script.text).query_async(&mut connection).await;
            shas.insert(script.name, load.unwrap());
        }
        let names = Keys::new(world.redis().await.key_prefix().clone());
        let keys: Vec<_> = (0..2 + number % 2).map(|n| key(&format!("fuzz-{number}-{n}"))).collect();
        // Every other state skips waiters without a subscription. Every other two declare all keys.
        let channel = names.inbox_prefix().to_owned().into();
        let handing = Handing { skip: number % 2 == 1, channel, all_keys: number % 4 >= 2 };
        Self {
            connection,
            shas,
            names,
            seen: vec![Seen::default(); keys.len()],
            tokens: vec![0; keys.len()],
            keys,
            random: StdRng::seed_from_u64(seed.wrapping_add(number)),
            callers: HashMap::new(),
            next: 1,
            handing,
            calls: 0,
            taken_at_once: 0,
            joined: 0,
            stepped: false,
            title: format!("STOCKADE_SEED={seed}, state {number}"),
        }
    }

    fn keys_of(&self, step: Operation) -> Vec<usize> {
        let of = |number: u64| {
            let key = &self.callers[&number].attempt.key;
            self.keys.iter().position(|other| other == key).unwrap()
        };
        match step {
            Operation::Ask(number)
            | Operation::Leave(number)
            | Operation::LeaveAgain(number)
            | Operation::Renew(number)
            | Operation::Downgrade(number)
            | Operation::Adopt(number) => {
                vec![of(number)]
            }
            Operation::AskAtOnce(one, other) => vec![of(one), of(other)],
            Operation::Force(key, _) => vec![key],
        }
    }

    fn call(&self, step: Operation) -> Cmd {
        let (script, args) = match step {
            Operation::Ask(number) => {
                let Caller { owner, attempt, wait, seq, .. } = &self.callers[&number];
                let (wait, stamp, stale_after) = (Some(*wait), 0, Duration::from_secs(1));
                let asking = calls::Asking { attempt, owner, wait, seq: *seq, stamp, stale_after };
                return asking.command(&self.shas[ACQUIRE.name], &self.names, &self.handing);
            }
            Operation::AskAtOnce(one, other) => {
                let callers = [one, other].map(|number| &self.callers[&number]);
                let attempts = callers.map(|caller| caller.attempt.clone());
                let owners = callers.map(|caller| caller.owner.clone());
                (&MULTI, calls::multi(&attempts, &owners, 0, Duration::from_secs(1)))
            }
            Operation::Leave(number) | Operation::LeaveAgain(number) => {
                let Caller { owner, attempt, .. } = &self.callers[&number];
                let sha = &self.shas[RELEASE.name];
                return calls::release(sha, &self.names, &attempt.key, owner, &self.handing);
            }
            Operation::Renew(number) => {
                let Handed { key, owner, token, lease, .. } = self.callers[&number].handed();
                // In every other state as in a cluster.
                let mut names = self.names.renewed(&key, self.handing.skip);
                names.extend(self.handing.skip.then(|| self.names.absent(key.bucket())));
                return evalsha(&self.shas[RENEW.name], names, vec![calls::renewed(&owner, token, lease)]);
            }
            Operation::Downgrade(number) => {
                let Handed { owner, token, lease, .. } = self.callers[&number].handed();
                (&DOWNGRADE, calls::downgrade(&owner, token, lease, &self.handing))
            }
            Operation::Adopt(number) => {
                let caller = &self.callers[&number];
                (&ADOPT, calls::adopt(&caller.heir(), &caller.handed(), 0, Duration::from_secs(1)))
            }
            Operation::Force(_, force) => (&FORCE, calls::force(force, &self.handing)),
        };
        let names = self.keys_of(step).iter().flat_map(|key| self.names.of(&self.keys[*key])).collect();
        evalsha(&self.shas[script.name], names, args)
    }

    fn pick(&mut self, busy: &HashSet<u64>) -> Option<u64> {
        let mut numbers: Vec<_> = self.callers.keys().copied().filter(|number| !busy.contains(number)).collect();
        numbers.sort_unstable();
        (!numbers.is_empty()).then(|| numbers[self.random.random_range(0..numbers.len())])
    }

    fn join(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        let owner = Owner::new(format!("fuzz-process-{:03}.{number:011}", number % 4));
        let mode = [Mode::Read, Mode::Write, Mode::Permit][self.random.random_range(0..3)];
        let permits = if self.random.random_bool(0.9) { 3 } else { 2 };
        // Some leases are longer than that of a handed-over grant.
        let longest = if self.random.random_bool(0.03) { 2500 } else { 200 };
        let lease = Duration::from_millis(self.random.random_range(5..longest));
        let wait = match number % 5 {
            0 => Duration::ZERO,
            1 => Duration::from_millis(15),
            _ => Duration::from_secs(5),
        };
        let key = self.keys[self.random.random_range(0..self.keys.len())].clone();
        let yields = self.random.random_bool(0.5).then(Arc::default);
        let attempt = Attempt { key, mode, permits, lease, wait, max_waiters: 12, tag: "x".into(), yields };
        self.callers.insert(number, Caller { owner, attempt, wait, seq: 0, token: None, believes: None });
        number
    }

    /// Two callers that want the first two resources exclusively.
    fn join_at_once(&mut self) -> (u64, u64) {
        let (one, other) = (self.join(), self.join());
        let lease = self.callers[&one].attempt.lease;
        for (number, key) in [one, other].into_iter().zip(0..) {
            let key = self.keys[key].clone();
            let attempt = &mut self.callers.get_mut(&number).unwrap().attempt;
            *attempt = Attempt { key, mode: Mode::Write, lease, ..attempt.clone() };
        }
        (one, other)
    }

    /// Moves of different callers.
    fn operations(&mut self) -> Vec<Operation> {
        let (mut operations, mut busy) = (Vec::new(), HashSet::new());
        for _ in 0..self.random.random_range(1..=TOGETHER) {
            let chance = self.random.random_range(0..100);
            if chance >= 93 {
                let (one, other) = self.join_at_once();
                busy.extend([one, other]);
                operations.push(Operation::AskAtOnce(one, other));
                continue;
            }
            let caller = if chance < 35 { Some(self.join()) } else { self.pick(&busy) };
            let Some(number) = caller else { continue };
            busy.insert(number);
            match chance {
                // New, or a poke, or the same question again.
                0..50 => operations.push(Operation::Ask(number)),
                50..80 => operations.extend([Operation::Leave(number), Operation::LeaveAgain(number)]),
                80..86 => operations.push(Operation::Renew(number)),
                86..88 if self.callers[&number].attempt.mode == Mode::Write => {
                    operations.push(Operation::Downgrade(number))
                }
                86..90 => operations.push(Operation::Adopt(number)),
                _ => {
                    let force = if self.random.random_bool(0.5) { Force::Now } else { Force::AfterLeases };
                    operations.push(Operation::Force(self.random.random_range(0..self.keys.len()), force));
                }
            }
        }
        operations
    }

    /// How calls of this kind become one command, as the store would send them.
    fn joins(&self, step: Operation) -> Option<Joins> {
        match step {
            Operation::Ask(number) => Some(calls::acquires(&self.callers[&number].attempt)),
            Operation::Leave(_) | Operation::LeaveAgain(_) => Some(calls::RELEASES),
            _ => None,
        }
        .filter(|_| !self.handing.all_keys)
    }

    /// Sends some calls in one round trip. Calls that may become one command do. A check of its keys follows each
    /// command.
    async fn round(&mut self, operations: &[Operation]) {
        if operations.is_empty() {
            return;
        }
        let commands: Vec<_> = operations
            .chunk_by(|one, next| self.joins(*one).is_some() && self.joins(*one) == self.joins(*next))
            .collect();
        let mut pipe = redis::pipe();
        for steps in &commands {
            let calls: Vec<_> = steps.iter().map(|step| self.call(*step)).collect();
            match self.joins(steps[0]) {
                Some(joins) => pipe.add_command(joins.join(&calls)),
                None => pipe.add_command(calls[0].clone()),
            };
            for names in steps.iter().flat_map(|step| self.keys_of(*step)).map(|key| self.names.of(&self.keys[key])) {
                let look = pipe.cmd("EVALSHA").arg(&self.shas[LOOK.name]).arg(names.len()).arg(names);
                if self.stepped {
                    look.arg("stepped");
                }
            }
        }
        let sent = Instant::now();
        let replies: Vec<Value> = match pipe.query_async(&mut self.connection).await {
            Ok(replies) => replies,
            Err(error) => panic!("{}: {error}", self.title),
        };
        let mut replies = replies.iter();
        for steps in commands {
            let reply = replies.next().unwrap();
            let each = match reply {
                Value::Array(each) if steps.len() > 1 => each.as_slice(),
                one => std::slice::from_ref(one),
            };
            assert_eq!(each.len(), steps.len(), "{}: {reply:?}", self.title);
            self.joined += u64::from(steps.len() > 1);
            for (step, reply) in steps.iter().zip(each) {
                self.calls += 1;
                self.answered(*step, self.keys_of(*step)[0], sent, reply);
            }
            for step in steps {
                for key in self.keys_of(*step) {
                    self.look(*step, steps.len(), key, replies.next().unwrap());
                }
            }
            if let [Operation::Ask(number)] = steps {
                self.check_place(*number);
            }
        }
        for step in operations {
            if let Operation::LeaveAgain(number) = step {
                self.callers.remove(number);
            }
        }
        // These callers got no place to wait at, so they leave.
        self.callers.retain(|_, caller| caller.token.is_some() || caller.seq > 0);
    }

    /// A caller that was just told to wait stands in the queue.
    fn check_place(&self, number: u64) {
        let Caller { owner, seq, token, .. } = &self.callers[&number];
        let queue = &self.seen[self.keys_of(Operation::Ask(number))[0]].queue;
        let stands = queue.iter().any(|waiting| waiting == owner.as_str());
        let waits = *seq > 0 && token.is_none() && !self.stepped;
        assert!(stands || !waits, "{}: {owner:?} was told to wait and is not in {queue:?}", self.title);
    }

    fn answered(&mut self, step: Operation, key: usize, sent: Instant, reply: &Value) {
        let (title, last) = (&self.title, &mut self.tokens[key]);
        match step {
            Operation::Ask(number) => {
                let caller = self.callers.get_mut(&number).unwrap();
                match Acquired::read(reply).unwrap() {
                    Acquired::Free { token } => {
                        assert!(token.get() > *last, "{title}: {token} after {last}");
                        *last = token.get();
                        caller.token = Some(token);
                        caller.believes = Some(believed(sent, caller.attempt.lease));
                    }
                    Acquired::Granted { token, x, now, .. } => {
                        // Handed over some time ago, or new.
                        assert!(token.get() > *last || caller.token.is_none_or(|before| before <= token), "{title}");
                        *last = token.get().max(*last);
                        caller.token = Some(token);
                        caller.believes = caller.believes.max(Some(believed_until(sent, now, x)));
                    }
                    Acquired::Queued { seq, .. } => {
                        let before = caller.seq;
                        assert!(before == 0 || before == seq, "{title}: moved from {before} to {seq}");
                        (caller.seq, caller.token) = (seq, None);
                    }
                    Acquired::Busy { .. } | Acquired::Full { .. } | Acquired::Capacity { .. } => {
                        (caller.seq, caller.token) = (0, None);
                    }
                    Acquired::Stale { .. } => panic!("{title}: stale"),
                }
            }
            Operation::AskAtOnce(one, other) => match Multi::read(reply, 2).unwrap() {
                Multi::Held(tokens) => {
                    for ((number, token), key) in [one, other].into_iter().zip(tokens).zip(0..) {
                        assert!(token.get() > self.tokens[key], "{title}: {token} after {}", self.tokens[key]);
                        self.tokens[key] = token.get();
                        let queue = &self.seen[key].queue;
                        assert!(self.stepped || queue.is_empty(), "{title}: taken before {queue:?}");
                        let caller = self.callers.get_mut(&number).unwrap();
                        caller.token = Some(token);
                        caller.believes = Some(believed(sent, caller.attempt.lease));
                    }
                    self.taken_at_once += 1;
                }
                Multi::Taken { .. } => {}
                Multi::Stale { .. } => panic!("{title}: stale"),
            },
            Operation::Leave(number) => {
                Left::read(reply).unwrap();
                self.callers.get_mut(&number).unwrap().believes = None;
            }
            Operation::LeaveAgain(_) => assert!(!Left::read(reply).unwrap().found, "{title}: released twice"),
            Operation::Renew(number) => {
                let caller = self.callers.get_mut(&number).unwrap();
                if let Renewed::Extended { .. } = Renewed::read_all(reply, 1).unwrap()[0] {
                    caller.believes = Some(believed(sent, caller.attempt.lease));
                }
            }
            Operation::Downgrade(number) => {
                let caller = self.callers.get_mut(&number).unwrap();
                if let Renewed::Extended { .. } = Renewed::read(reply).unwrap() {
                    caller.attempt.mode = Mode::Read;
                    caller.believes = Some(believed(sent, caller.attempt.lease));
                }
            }
            Operation::Adopt(number) => {
                let caller = self.callers.get_mut(&number).unwrap();
                if let Adopted::Held { token, x, now } = Adopted::read(reply).unwrap() {
                    (caller.owner, caller.token) = (caller.heir(), Some(token));
                    caller.believes = Some(believed_until(sent, now, x));
                }
            }
            Operation::Force(_, force) => {
                let (_, token) = forced(reply).unwrap();
                assert!(token.get() > *last, "{title}: forced {token} after {last}");
                *last = token.get();
                let here = self.callers.values_mut().filter(|caller| caller.attempt.key == self.keys[key]);
                here.filter(|caller| force == Force::Now || caller.attempt.mode == Mode::Write)
                    .for_each(|caller| caller.believes = None);
            }
        }
    }

    fn look(&mut self, step: Operation, calls: usize, key: usize, reply: &Value) {
        let seen = Seen::read(reply);
        if let Some(wrong) = seen.wrong_after(&self.seen[key], calls) {
            panic!("{}, after {step:?} of {}: {wrong}", self.title, self.keys[key]);
        }
        // Now is later than the check, so a caller that believes in a lease now was a holder then.
        let now = Instant::now();
        for caller in self.callers.values().filter(|caller| caller.attempt.key == self.keys[key]) {
            let believes = caller.believes.filter(|until| *until > now && !self.stepped);
            if let Some(until) = believes {
                let held = seen.holders.get(caller.owner.as_str());
                let (token, x) = held.unwrap_or_else(|| panic!("{}: {:?} believes it holds", self.title, caller.owner));
                assert_eq!(caller.token.map(Token::get), Some(*token), "{}: {:?}", self.title, caller.owner);
                // The look came before now, so that by the server's clock the lease ends later than this.
                let left = until.since(now).as_micros();
                assert!(seen.now + u64::try_from(left).unwrap() <= *x, "{}: {:?}", self.title, caller.owner);
            }
        }
        self.seen[key] = seen;
    }

    async fn make_calls(mut self, calls: u64, clock: Option<&RedisServer>) -> u64 {
        self.stepped = clock.is_some();
        while self.calls < calls {
            if let Some(server) = clock.filter(|_| self.random.random_bool(0.02)) {
                let by = Duration::from_millis(self.random.random_range(0..3_600_000));
                match self.random.random_bool(0.5) {
                    true => server.step_clock_forwards(by).unwrap(),
                    false => server.step_clock_backwards(by).unwrap(),
                }
            }
            let operations = self.operations();
            self.round(&operations).await;
            if self.random.random_bool(0.05) {
                tokio::time::sleep(Duration::from_millis(self.random.random_range(0..12))).await;
            }
        }
        // Once all callers release, no key is left, without waiting for any lease to end.
        let mut left: Vec<_> = self.callers.keys().copied().collect();
        left.sort_unstable();
        for number in left {
            self.round(&[Operation::Leave(number), Operation::LeaveAgain(number)]).await;
        }
        for seen in &self.seen {
            assert!(seen.holders.is_empty() && seen.queue.is_empty(), "{}: {seen:?}", self.title);
        }
        assert!(self.taken_at_once > 0, "{}: never were both resources free", self.title);
        assert!(self.joined > 0 || self.handing.all_keys, "{}: no two calls came together", self.title);
        self.calls
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
async fn random_operations_keep_the_invariants() {
    let seed = seed();
    println!("STOCKADE_SEED={seed}");
    let world = World::start().await;
    let began = tokio::time::Instant::now();
    // In the states that skip waiters without a subscription, two of the four processes are alive.
    let client = redis::Client::open(world.server.url()).unwrap();
    let mut alive = client.get_async_pubsub().await.unwrap();
    let names = Keys::new(world.redis().await.key_prefix().clone());
    let prefix = names.inbox_prefix();
    alive.subscribe(&[format!("{prefix}fuzz-process-000"), format!("{prefix}fuzz-process-001")]).await.unwrap();
    let mut fuzzers = tokio::task::JoinSet::new();
    for number in 0..FUZZERS {
        fuzzers.spawn(FuzzState::new(&world, seed, number).await.make_calls(CALLS.div_ceil(FUZZERS), None));
    }
    let calls: u64 = fuzzers.join_all().await.into_iter().sum();
    assert!(calls >= CALLS);
    println!("{calls} calls, each with a look at the keys, in {:?}", began.elapsed());
    world.until_nothing_is_left().await;
    world.end_behind(alive).await;
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
async fn random_operations_under_a_clock_that_jumps_keep_the_order_of_tokens_and_leave_nothing() {
    let seed = seed();
    println!("STOCKADE_SEED={seed}");
    let world = World::on(RedisServer::builder().own_clock().start().await.unwrap());
    let calls = FuzzState::new(&world, seed, FUZZERS).await.make_calls(STEPPED, Some(&world.server)).await;
    assert!(calls >= STEPPED);
    world.end().await;
}
