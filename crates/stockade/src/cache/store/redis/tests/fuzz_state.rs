use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use redis::{AsyncConnectionConfig, Value, aio::MultiplexedConnection};
use stockade_testbed::RedisServer;
use tokio::time::sleep;

use super::{
    history::History,
    operation::{FORGET, Operation},
    oracle::Oracle,
    reply::Reply,
    seen::{Seen, text},
};
use crate::{
    cache::store::redis::{keys::Keys, scripts::ALL},
    redis::{Script, script},
    resource::{Bucket, Key, Namespace},
};

static LOOK: Script = script!("look", "scripts/invariants.lua");

/// How many calls are sent together.
const TOGETHER: usize = 8;
pub(super) const PROCESSES: [&str; 3] = ["one", "two", "three"];

/// One key.
pub(super) struct Place {
    pub(super) key: Key,
    pub(super) keys: Vec<String>,
    /// The tokens of all loads so far, current or not. The first was never leased.
    pub(super) tokens: Vec<String>,
    /// The token that was current when the key was last looked at.
    current: Option<String>,
    intents: Vec<String>,
}

/// Random calls on three keys of one cache. Each is compared with what follows from the state before.
pub(super) struct FuzzState {
    connection: MultiplexedConnection,
    shas: HashMap<&'static str, String>,
    names: Keys,
    pub(super) places: Vec<Place>,
    pub(super) random: StdRng,
    next: u64,
    /// The run of the server, as processes know it that are not late.
    run: u64,
    history: History,
    /// The epochs of all tables of tags so far.
    epochs: HashSet<u64>,
    pub(super) calls: u64,
    /// How often each case occurred: call, reply and reason.
    pub(super) answers: BTreeMap<String, u64>,
    /// How many waiting processes had to be notified.
    pub(super) told: u64,
    /// How many waiting processes may have been notified: their entry may have expired before the call.
    pub(super) may_be_told: u64,
    /// How many tags were invalidated.
    pub(super) tags: u64,
    /// The newest epoch that was seen, and the one before it, which late processes know.
    pub(super) known: [u64; 2],
    /// The beginning of each failure message.
    title: String,
}

impl FuzzState {
    pub(super) async fn new(server: &RedisServer, seed: u64, number: u64) -> Self {
        // As the library does: scores are numbers there, not texts.
        let client = redis::Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
        // A busy machine may take its time.
        let patience = Some(Duration::from_secs(60));
        let config = AsyncConnectionConfig::new().set_response_timeout(patience).set_connection_timeout(patience);
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut shas = HashMap::new();
        for script in ALL.iter().copied().chain([&LOOK, &FORGET]) {
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(script.text).query_async(&mut connection).await;
            shas.insert(script.name, load.unwrap());
        }
        // A namespace of its own, and with it a marker, a table of tags and sequences.
        let names = Keys::new(&Namespace::new(&format!("fuzz-{number}")).unwrap(), "fuzz");
        let place = |id: u64| {
            let key = Key::new("fuzz", &id.to_string()).unwrap();
            assert_ne!(key.bucket(), Bucket::FIRST, "its sequence would be that of tags, too");
            let (keys, tokens) = (names.of_load(&key), vec!["nobody's".to_owned()]);
            Place { key, keys, tokens, current: None, intents: Vec::new() }
        };
        Self {
            connection,
            shas,
            places: (0..3).map(place).collect(),
            names,
            random: StdRng::seed_from_u64(seed.wrapping_add(number)),
            next: 1,
            run: 0,
            history: History::default(),
            epochs: HashSet::new(),
            calls: 0,
            answers: BTreeMap::new(),
            told: 0,
            may_be_told: 0,
            tags: 0,
            known: [0; 2],
            title: format!("STOCKADE_SEED={seed}, state {number}"),
        }
    }

    pub(super) fn next_name(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}{}", self.next)
    }

    /// The run of the server, or sometimes another one, from a process that is behind or ahead.
    pub(super) fn run(&mut self) -> String {
        if self.random.random_bool(0.002) {
            self.run = self.random.random_range(0..3);
        }
        let run = if self.random.random_bool(0.98) { self.run } else { self.random.random_range(0..3) };
        format!("run-{run}")
    }

    /// The epoch that a process knows.
    pub(super) fn known(&mut self) -> u64 {
        // Never an epoch that is older than these two: a process hears of every epoch. Otherwise old values would come
        // back.
        self.known[usize::from(self.random.random_bool(0.3))]
    }

    fn choose(&mut self, place: usize) -> Operation {
        let chance = self.random.random_range(0..200);
        let run = self.run();
        let known = self.known();
        let any_run = format!("run-{}", self.random.random_range(0..2));
        // Mostly the current token, if there is one.
        let Place { tokens, current, .. } = &self.places[place];
        // If no load is running, a call that would end one mostly begins one instead.
        let is_idle = current.is_none() && (52..108).contains(&chance) && self.random.random_bool(0.7);
        let chance = if is_idle { 0 } else { chance };
        let current = current.as_ref().filter(|_| self.random.random_bool(0.8));
        let token = current.unwrap_or_else(|| tokens.choose(&mut self.random).unwrap()).clone();
        match chance {
            0..52 => {
                let token = self.next_name("token");
                self.places[place].tokens.push(token.clone());
                let process = PROCESSES.choose(&mut self.random).unwrap();
                let (early, content) = (self.random.random_bool(0.3), self.random.random_bool(0.5));
                // It is shorter than a hold only as after the clock was set back.
                let longest = if self.random.random_bool(0.9) { 300 } else { self.random.random_range(0..300) };
                // A lease is much longer than others only as after the clock was set back.
                let lease = match self.random.random_range(0..10) {
                    0 => self.random.random_range(1_500..2_500),
                    1..4 => self.random.random_range(2..10),
                    _ => self.random.random_range(2..Operation::LONGEST_LEASE),
                };
                Operation::Lease { token, lease, process, early, content, longest, run, known }
            }
            52..92 => {
                let value = format!("{token} {}", self.next_name("value"));
                // Some live for longer than a lease keeps their entry.
                let ttl = [10, 10, 10, 300, 300, 300, 3_000][self.random.random_range(0..7)];
                let (ttl, grace) = (self.random.random_range(1..ttl), self.random.random_range(50..250));
                let tags = if self.random.random_bool(0.3) { 0 } else { self.random.random_range(1..=2) };
                let tags: Vec<_> = Operation::TAGS.choose_multiple(&mut self.random, tags).copied().collect();
                Operation::Fill { token, value, ttl, grace, tags: tags.join("\n"), run }
            }
            92..108 => {
                let (counts, unstorable) = (self.random.random_bool(0.8), self.random.random_bool(0.2));
                let hold = match self.random.random_range(0..10) {
                    0..2 => 0,
                    // As after the clock was set back.
                    2 => self.random.random_range(1_500..2_500),
                    _ => self.random.random_range(1..300),
                };
                Operation::Abort { token, hold, counts, unstorable }
            }
            138..141 => Operation::Clear { known },
            141 if self.random.random_bool(0.5) => Operation::LoseEpoch { marker: false },
            108..138 | 141 => Operation::Read { run },
            142..158 => self.invalidate_tag(run),
            158 => Operation::Lose,
            159..165 => Operation::Forget,
            165..168 => Operation::Invalidate,
            168..171 => {
                let intent = self.next_name("intent");
                self.places[place].intents.push(intent.clone());
                Operation::Begin { intent, transaction: self.next }
            }
            171..183 => match self.places[place].intents.choose(&mut self.random).cloned() {
                // Often the last intent is ended, so that there are times without intents. Sometimes one is ended
                // twice.
                Some(intent) => {
                    if self.random.random_bool(0.9) {
                        self.places[place].intents.retain(|other| *other != intent);
                    }
                    Operation::End { intent }
                }
                None if self.random.random_bool(0.3) => Operation::End { intent: "nobody's".to_owned() },
                None => Operation::Read { run },
            },
            183..191 => Operation::Join { run: any_run, longest: self.random.random_range(0..200), known },
            191..196 => Operation::Trust { run: any_run },
            _ => Operation::Beat { known },
        }
    }

    pub(super) fn invalidate_tag(&mut self, run: String) -> Operation {
        let tag = Operation::TAGS.choose(&mut self.random).unwrap();
        // It is shorter than values live only as when two caches of one name have different settings.
        let longest = if self.random.random_bool(0.7) { 50 } else { 2_000_000 };
        let longest = self.random.random_range(0..longest);
        Operation::InvalidateTag { tag, longest, run, random: self.next_name("random") }
    }

    /// Makes each call in one round trip: the state before, the call, the state after, and the check of invariants.
    async fn round(&mut self, operations: Vec<(usize, Operation)>) {
        let mut pipe = redis::pipe();
        let (marker, tag_sequence) = (self.names.marker(), self.names.sequence(Bucket::FIRST));
        for (place, step) in &operations {
            let place = &self.places[*place];
            Seen::ask(&mut pipe, &place.keys, &marker, &tag_sequence);
            step.send(&mut pipe, place, &self.names, |script| self.shas[script.name].clone());
            Seen::ask(&mut pipe, &place.keys, &marker, &tag_sequence);
            let look = pipe.cmd("EVALSHA").arg(&self.shas[LOOK.name]).arg(place.keys.len() + 1).arg(&place.keys);
            look.arg(&marker);
        }
        let replies: Vec<Value> = match pipe.query_async(&mut self.connection).await {
            Ok(replies) => replies,
            Err(error) => panic!("{}: {error}", self.title),
        };
        let mut replies = replies.as_slice();
        for (place, step) in operations {
            let (before, rest) = replies.split_at(Seen::COMMANDS);
            let (reply, rest) = rest.split_at(step.commands());
            let (after, rest) = rest.split_at(Seen::COMMANDS);
            let (look, rest) = rest.split_first().unwrap();
            replies = rest;
            let Value::Array(look) = look else { panic!("{look:?}") };
            assert_eq!(text(&look[0]), "", "{}, after {step:?} of {}", self.title, self.places[place].key);
            self.judge(place, &step, &Seen::read(before), &Reply::of(&step, reply), &Seen::read(after));
        }
        assert!(replies.is_empty());
    }

    fn judge(&mut self, place: usize, step: &Operation, before: &Seen, reply: &Reply, after: &Seen) {
        self.calls += 1;
        self.tags += u64::from(matches!(step, Operation::InvalidateTag { .. }));
        self.history.goes_on(place, step, reply);
        self.places[place].current.clone_from(&after.token);
        if after.epoch > self.known[0] {
            self.known = [after.epoch, self.known[0]];
        }
        if let Operation::Lease { token, .. } = step {
            let tokens = &mut self.places[place].tokens;
            tokens.retain(|other| other != token || reply.word == "LEASED");
            // The last few tokens are enough for late calls.
            let old = tokens.len().saturating_sub(3).max(1);
            tokens.drain(1..old);
        }
        if let Some(epoch) = after.table.any_epoch().filter(|epoch| before.table.any_epoch() != Some(*epoch)) {
            assert!(self.epochs.insert(epoch), "{}: {step:?} began a table in an earlier epoch", self.title);
        }
        let told = if after.waiting.is_empty() { before.waiting.len() as u64 } else { 0 };
        if before.may_end(step.keeps(), after.at) {
            self.may_be_told += told;
            return;
        }
        let oracle = Oracle::of(step, before, reply, after);
        assert!(
            oracle.word == reply.word && oracle.seen == after.essence(),
            "{}: {step:?} of {} was answered {reply:?} over {before:?} and left {after:?}, expected {oracle:?}",
            self.title,
            self.places[place].key,
        );
        assert!(
            is_kept_well(step, before, reply, after),
            "{}: {step:?} of {} over {before:?} left {after:?}",
            self.title,
            self.places[place].key,
        );
        self.told += told;
        let answer = format!("{} {} {}", step.name(), oracle.word, oracle.why);
        *self.answers.entry(answer.trim_end().to_owned()).or_default() += 1;
    }

    pub(super) async fn make_calls(mut self, calls: u64) -> Self {
        while self.calls < calls {
            let mut operations = Vec::new();
            for _ in 0..self.random.random_range(1..=TOGETHER) {
                let place = self.random.random_range(0..self.places.len());
                operations.push((place, self.choose(place)));
            }
            self.add_scenes(&mut operations);
            self.round(operations).await;
            if self.random.random_bool(0.05) {
                let pause = self.random.random_range(0..60);
                sleep(Duration::from_millis(pause)).await;
            }
        }
        // Intents never expire, so they are ended here. All else expires.
        for place in 0..self.places.len() {
            for intent in self.places[place].intents.clone() {
                self.round(vec![(place, Operation::End { intent })]).await;
            }
        }
        self
    }
}

/// Whether a load that is given up keeps its entry for as long as the hold counts, and a value no longer than before.
fn is_kept_well(step: &Operation, before: &Seen, reply: &Reply, after: &Seen) -> bool {
    /// Redis reads the clock for expiry now and then, in ms.
    const COARSE: i64 = 20;
    let Operation::Abort { hold, counts, unstorable, .. } = step else { return true };
    if reply.word != "ABORTED" || *hold == 0 {
        return true;
    }
    let times = if *counts && !unstorable { 2 } else { 1 };
    match before.value {
        Some(_) => after.kept <= before.kept,
        None => after.kept + COARSE >= i64::try_from(hold * times).unwrap(),
    }
}
