//! Random calls of the scripts by loads that come late, repeat themselves and are never heard of again, each compared with
//! what it must do to what lay there before.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use redis::{Value, aio::MultiplexedConnection};
use stockade_testbed::RedisServer;
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::seen::{SHAPE, Seen, text};
use crate::{
    cache::{
        intent::OVERDUE,
        redis::{
            keys::Keys,
            scripts::{ABORT, BEAT, BEGIN, END, FILL, INVALIDATE, JOIN, LEASE, TRUST},
        },
    },
    redis::Script,
    resource::{Key, Namespace},
};

static LOOK: Script = Script { name: "look", text: include_str!("scripts/invariants.lua") };

const GAMES: u64 = 4;
/// Calls that are sent together.
const TOGETHER: usize = 8;
const RUN: &str = "run-0";
const PROCESSES: [&str; 3] = ["one", "two", "three"];

#[derive(Clone, Debug)]
enum Move {
    Lease { token: String, lease: u64, process: &'static str, early: bool, content: bool, longest: u64 },
    Fill { token: String, value: String, ttl: u64, grace: u64 },
    Abort { token: String, hold: u64 },
    Invalidate,
    Begin { intent: String, transaction: u64 },
    End { intent: String },
    Join { run: u64, longest: u64 },
    Trust { run: u64 },
    Beat,
}

/// One key of the game.
struct Place {
    key: Key,
    keys: Vec<String>,
    /// Tokens of loads, used or not, void or not.
    tokens: Vec<String>,
    intents: Vec<String>,
}

struct Game {
    connection: MultiplexedConnection,
    shas: HashMap<&'static str, String>,
    names: Keys,
    marker: String,
    places: Vec<Place>,
    random: StdRng,
    next: u64,
    calls: u64,
    /// By the word of its reply.
    replies: HashMap<String, u64>,
    /// Processes that had signed up and had to be told.
    told: u64,
    /// Those of which nobody can say whether they were still signed up.
    may_be_told: u64,
    /// What a failure is reported with.
    title: String,
}

impl Game {
    async fn new(server: &RedisServer, seed: u64, number: u64) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut shas = HashMap::new();
        for script in [&LEASE, &FILL, &ABORT, &INVALIDATE, &BEGIN, &END, &JOIN, &TRUST, &BEAT, &LOOK] {
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(script.text).query_async(&mut connection).await;
            shas.insert(script.name, load.unwrap());
        }
        // A namespace of its own, and with it a marker and sequences.
        let names = Keys::new(&Namespace::new(&format!("fuzz-{number}")).unwrap(), "fuzz");
        let place = |id: u64| {
            let key = Key::new("fuzz", &id.to_string()).unwrap();
            Place { keys: names.with_tags(&key), key, tokens: vec!["nobody's".to_owned()], intents: Vec::new() }
        };
        Self {
            connection,
            shas,
            places: (0..3).map(place).collect(),
            marker: names.marker(),
            names,
            random: StdRng::seed_from_u64(seed.wrapping_add(number)),
            next: 1,
            calls: 0,
            replies: HashMap::new(),
            told: 0,
            may_be_told: 0,
            title: format!("STOCKADE_SEED={seed}, game {number}"),
        }
    }

    fn next_name(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}{}", self.next)
    }

    fn choose(&mut self, place: usize) -> Move {
        let chance = self.random.random_range(0..100);
        let run = self.random.random_range(0..3);
        // Mostly the last one, which may still be good.
        let tokens = &self.places[place].tokens;
        let token = if self.random.random_bool(0.7) { tokens.last() } else { tokens.choose(&mut self.random) };
        let token = token.unwrap().clone();
        match chance {
            0..30 => {
                let token = self.next_name("token");
                let tokens = &mut self.places[place].tokens;
                tokens.push(token.clone());
                // The last few are enough to be late with.
                let old = tokens.len().saturating_sub(4);
                tokens.drain(..old);
                let process = PROCESSES.choose(&mut self.random).unwrap();
                let (early, content) = (self.random.random_bool(0.2), self.random.random_bool(0.5));
                // Shorter than a hold only as after the clock was set back.
                let longest = if self.random.random_bool(0.9) { 300 } else { self.random.random_range(0..300) };
                Move::Lease { token, lease: self.random.random_range(2..300), process, early, content, longest }
            }
            30..60 => {
                let value = format!("{token} {}", self.next_name("value"));
                let (ttl, grace) = (self.random.random_range(1..300), self.random.random_range(0..200));
                Move::Fill { token, value, ttl, grace }
            }
            60..69 => {
                let hold = if self.random.random_bool(0.7) { self.random.random_range(1..300) } else { 0 };
                Move::Abort { token, hold }
            }
            69..75 => Move::Invalidate,
            75..79 => {
                let intent = self.next_name("intent");
                self.places[place].intents.push(intent.clone());
                Move::Begin { intent, transaction: self.next }
            }
            79..94 => match self.places[place].intents.choose(&mut self.random).cloned() {
                // Often the last there is, so that there also are times without any; now and then one twice.
                Some(intent) => {
                    if self.random.random_bool(0.9) {
                        self.places[place].intents.retain(|other| *other != intent);
                    }
                    Move::End { intent }
                }
                None => Move::End { intent: "nobody's".to_owned() },
            },
            94..97 => Move::Join { run, longest: self.random.random_range(0..200) },
            97..99 => Move::Trust { run },
            _ => Move::Beat,
        }
    }

    fn call(&self, place: &Place, step: &Move) -> (&'static Script, Vec<String>, Vec<String>) {
        let keys = place.keys.clone();
        let resource = place.key.as_str().to_owned();
        let (channel, inbox) = (self.names.channel(), self.names.inbox_prefix());
        let (bucket, shape) = (place.key.bucket().index().to_string(), SHAPE.to_owned());
        let dropping = [resource.clone(), bucket.clone(), channel.clone(), inbox.clone()];
        let (script, args) = match step.clone() {
            Move::Lease { token, lease, process, early, content, longest } => {
                let kind = if early { "early" } else { "miss" };
                let content = u8::from(content).to_string();
                let (lease, process, kind) = (lease.to_string(), process.to_owned(), kind.to_owned());
                (&LEASE, vec![token, lease, process, kind, content, longest.to_string(), RUN.to_owned(), shape])
            }
            Move::Fill { token, value, ttl, grace } => {
                let (kind, version, took) = ("value".to_owned(), String::new(), "7".to_owned());
                let (ttl, grace, run, tags, lease) =
                    (ttl.to_string(), grace.to_string(), RUN.to_owned(), String::new(), "300".to_owned());
                (&FILL, vec![token, value, kind, version, ttl, grace, took, resource, inbox, run, tags, lease, shape])
            }
            Move::Abort { token, hold } => (&ABORT, vec![token, resource, inbox, hold.to_string(), shape]),
            Move::Invalidate => (&INVALIDATE, dropping.into()),
            Move::Begin { intent, transaction } => {
                (&BEGIN, [&dropping[..], &[intent, transaction.to_string()]].concat())
            }
            Move::End { intent } => (&END, [&dropping[..], &[intent]].concat()),
            Move::Join { run, longest } => {
                return (&JOIN, vec![self.marker.clone()], vec![format!("run-{run}"), longest.to_string()]);
            }
            Move::Trust { run } => return (&TRUST, vec![self.marker.clone()], vec![format!("run-{run}")]),
            Move::Beat => return (&BEAT, vec![keys[2].clone()], vec![channel, bucket]),
        };
        (script, keys, args)
    }

    /// One round trip: all about the key, the call, all about the key, and what must hold of it.
    async fn round(&mut self, moves: Vec<(usize, Move)>) {
        let mut pipe = redis::pipe();
        for (place, step) in &moves {
            let place = &self.places[*place];
            Seen::ask(&mut pipe, &place.keys, &self.marker);
            let (script, keys, args) = self.call(place, step);
            pipe.cmd("EVALSHA").arg(&self.shas[script.name]).arg(keys.len()).arg(keys).arg(args);
            Seen::ask(&mut pipe, &place.keys, &self.marker);
            let look = pipe.cmd("EVALSHA").arg(&self.shas[LOOK.name]).arg(place.keys.len() + 1).arg(&place.keys);
            look.arg(&self.marker);
        }
        let replies: Vec<Value> = match pipe.query_async(&mut self.connection).await {
            Ok(replies) => replies,
            Err(error) => panic!("{}: {error}", self.title),
        };
        let each = 2 * Seen::COMMANDS + 2;
        assert_eq!(replies.len(), moves.len() * each);
        for ((place, step), replies) in moves.into_iter().zip(replies.chunks_exact(each)) {
            let (before, rest) = replies.split_at(Seen::COMMANDS);
            let (reply, rest) = rest.split_first().unwrap();
            let (after, look) = rest.split_at(Seen::COMMANDS);
            self.calls += 1;
            let Value::Array(look) = &look[0] else { panic!("{look:?}") };
            let broken = text(&look[0]);
            assert_eq!(broken, "", "{}, after {step:?} of {}", self.title, self.places[place].key);
            let (before, after) = (Seen::read(before), Seen::read(after));
            let told = if after.waiting.is_empty() { before.waiting.len() as u64 } else { 0 };
            if before.may_end() {
                self.may_be_told += told;
                continue;
            }
            let reply = Reply::read(reply);
            let expected = expected(&step, &before, &reply);
            assert!(
                expected.word == reply.word && expected.seen == after.essence(),
                "{}: {step:?} of {} was answered {reply:?} over {before:?} and left {after:?}, expected {expected:?}",
                self.title,
                self.places[place].key,
            );
            self.told += told;
            *self.replies.entry(reply.word).or_default() += 1;
        }
    }

    async fn play(mut self, calls: u64) -> Self {
        while self.calls < calls {
            let mut moves = Vec::new();
            for _ in 0..self.random.random_range(1..=TOGETHER) {
                let place = self.random.random_range(0..self.places.len());
                moves.push((place, self.choose(place)));
            }
            self.round(moves).await;
            if self.random.random_bool(0.05) {
                let pause = self.random.random_range(0..60);
                sleep(Duration::from_millis(pause)).await;
            }
        }
        // What is announced is ended by somebody, and all else ends by itself.
        for place in 0..self.places.len() {
            for intent in self.places[place].intents.clone() {
                self.round(vec![(place, Move::End { intent })]).await;
            }
        }
        self
    }
}

#[derive(Debug)]
struct Reply {
    word: String,
    /// Server time, µs.
    now: u64,
    rest: Vec<String>,
}

impl Reply {
    fn read(value: &Value) -> Self {
        let Value::Array(parts) = value else { panic!("{value:?}") };
        let mut parts = parts.iter().map(text);
        let (word, now) = (parts.next().unwrap(), parts.next().unwrap().parse().unwrap());
        Self { word, now, rest: parts.collect() }
    }
}

#[derive(Debug)]
struct Expected {
    word: &'static str,
    seen: Seen,
}

/// What a call must answer and leave behind.
fn expected(step: &Move, before: &Seen, reply: &Reply) -> Expected {
    let now = reply.now;
    let (same, dropped) = (before.essence(), before.dropped());
    let to = |word, seen| Expected { word, seen };
    match step {
        Move::Lease { .. } if !before.intents.is_empty() => {
            let age = u64::try_from(OVERDUE.as_micros()).unwrap();
            let overdue = before.intents.iter().filter(|(_, (_, started))| started + age < now);
            let mut expected: Vec<_> = overdue.map(|(id, (xid, _))| [id.clone(), xid.clone()]).collect();
            let mut told: Vec<_> = reply.rest.chunks_exact(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect();
            expected.sort_unstable();
            told.sort_unstable();
            assert_eq!(told, expected, "intents that stand for long");
            to("BYPASS", same)
        }
        Move::Lease { early: false, .. } if before.value.is_some() && before.fresh_until > now => {
            assert_eq!(before.value.as_ref(), reply.rest.first());
            to("HIT", same)
        }
        Move::Lease { early, content, longest, .. }
            if before.held_until > now
                && before.held_until - now <= longest * 1000
                && (*content || (!early && before.value.is_some())) =>
        {
            assert_eq!(before.value.clone().unwrap_or_default(), reply.rest[0]);
            to("HELD", same)
        }
        Move::Lease { process, .. } if before.token.is_some() && before.leased_until > now => {
            let mut waiting = before.waiting.clone();
            waiting.insert((*process).to_owned());
            to("WAIT", Seen { waiting, ..same })
        }
        Move::Lease { token, lease, .. } => {
            assert_eq!(before.value.clone().unwrap_or_default(), reply.rest[0]);
            to("LEASED", Seen { token: Some(token.clone()), leased_until: now + lease * 1000, ..same })
        }
        Move::Fill { token, value, ttl, .. } if before.token.as_ref() == Some(token) && before.intents.is_empty() => {
            let seen = Seen { sequence: before.sequence, ..dropped };
            to("ACCEPTED", Seen { value: Some(value.clone()), fresh_until: now + ttl * 1000, ..seen })
        }
        Move::Abort { token, hold } if before.token.as_ref() == Some(token) => {
            let held_until = if *hold > 0 { now + hold * 1000 } else { before.held_until };
            to("ABORTED", Seen { token: None, leased_until: 0, held_until, waiting: [].into(), ..same })
        }
        Move::Fill { .. } | Move::Abort { .. } => to("REFUSED", same),
        Move::Invalidate => to("DROPPED", dropped),
        Move::Begin { intent, transaction } => {
            let mut intents = before.intents.clone();
            intents.insert(intent.clone(), (transaction.to_string(), now));
            to("BEGUN", Seen { intents, ..dropped })
        }
        Move::End { intent } => {
            let mut intents = before.intents.clone();
            let word = if intents.remove(intent).is_some() { "ENDED" } else { "MISSING" };
            to(word, Seen { intents, ..dropped })
        }
        Move::Join { run, longest } => {
            let known = before.marker.strip_prefix(&format!("run-{run} ")).and_then(|rest| rest.split_once(' '));
            match known {
                Some((_, "t")) => to("TRUSTED", same),
                Some((since, _)) if now - since.parse::<u64>().unwrap() > longest * 1000 => to("TRUSTED", same),
                Some((_, "r")) => to("REPLACING", same),
                Some(_) => to("UNTRUSTED", same),
                None if before.marker.is_empty() => {
                    to("UNTRUSTED", Seen { marker: format!("run-{run} {now} u"), ..same })
                }
                None => to("REPLACING", Seen { marker: format!("run-{run} {now} r"), ..same }),
            }
        }
        Move::Trust { run } => match before.marker.strip_prefix(&format!("run-{run} ")) {
            Some(rest) => {
                let since = rest.split_once(' ').unwrap().0;
                to("TRUSTED", Seen { marker: format!("run-{run} {since} t"), ..same })
            }
            None => to("REFUSED", same),
        },
        Move::Beat => to("BEAT", same),
    }
}

/// What processes hear: how many messages of each kind, and the last number of each sequence.
#[derive(Debug, Default)]
struct Heard {
    woken: u64,
    sequences: HashMap<(String, String), u64>,
}

impl Heard {
    fn message(&mut self, channel: &str, payload: &str) {
        if payload.starts_with("C ") {
            self.woken += 1;
            return;
        }
        let words: Vec<_> = payload.splitn(3, ' ').collect();
        let number: u64 = words[1].parse().unwrap();
        let last = self.sequences.insert((channel.to_owned(), words[0].to_owned()), number).unwrap_or_default();
        let expected = if words[2] == "-" { last } else { last + 1 };
        assert_eq!(number, expected, "`{payload}` after {last}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
async fn random_calls_of_the_cache_scripts_do_what_they_must() {
    let seed: u64 = std::env::var("STOCKADE_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap());
    let calls: u64 = if std::env::var_os("STOCKADE_LONG_RUNS").is_some() { 100_000 } else { 10_000 };
    println!("STOCKADE_SEED={seed}");
    let server = RedisServer::start().await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut processes = client.get_async_pubsub().await.unwrap();
    processes.psubscribe("*").await.unwrap();
    let heard = Arc::new(Mutex::new(Heard::default()));
    let (mut listening, ears) = (JoinSet::new(), Arc::clone(&heard));
    listening.spawn(async move {
        let mut messages = processes.into_on_message();
        while let Some(message) = messages.next().await {
            let payload: String = message.get_payload().unwrap();
            ears.lock().await.message(message.get_channel_name(), &payload);
        }
    });

    let began = Instant::now();
    let mut games = JoinSet::new();
    for number in 0..GAMES {
        games.spawn(Game::new(&server, seed, number).await.play(calls.div_ceil(GAMES)));
    }
    let (mut made, mut told, mut may_be_told, mut replies) = (0, 0, 0, HashMap::new());
    while let Some(game) = games.join_next().await {
        let game = game.unwrap();
        made += game.calls;
        told += game.told;
        may_be_told += game.may_be_told;
        for (word, count) in game.replies {
            *replies.entry(word).or_insert(0) += count;
        }
    }
    println!("{made} calls, each with a look at the keys, in {:?}: {replies:?}", began.elapsed());
    assert!(made >= calls);
    let words =
        ["HIT", "HELD", "WAIT", "LEASED", "BYPASS", "ACCEPTED", "REFUSED", "ABORTED", "ENDED", "MISSING", "TRUSTED"];
    for word in words {
        assert!(replies.contains_key(word), "STOCKADE_SEED={seed}: never {word}, which leaves it unlooked at");
    }
    let limit = Instant::now() + Duration::from_secs(20);
    let all_told = told..=told + may_be_told;
    while !all_told.contains(&heard.lock().await.woken) {
        let woken = heard.lock().await.woken;
        assert!(Instant::now() < limit, "STOCKADE_SEED={seed}: {all_told:?} were to be woken, {woken} were");
        assert!(listening.try_join_next().is_none(), "STOCKADE_SEED={seed}: a message was wrong");
        sleep(Duration::from_millis(5)).await;
    }
    listening.shutdown().await;
    // All else ends by itself.
    let stays = |name: &str| ["}s:", "}j:", "}t:"].iter().any(|kind| name.contains(kind));
    server.until_nothing_is_left_but(stays).await.unwrap();
}
