use std::{collections::HashMap, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use redis::Value;

use super::{World, key, server};
use crate::{
    resource::Key,
    store::{
        Attempt, Force, LockStore, Mode, Owner, Token,
        redis::{
            RedisStore, calls,
            calls::Handing,
            replies::{Acquired, Left, Renewed, forced},
            scripts::{ACQUIRE, FORCE, RELEASE, RENEW},
        },
    },
};

/// What must hold after every script. Returns an empty text, or what is broken.
const CHECK: &str = r"
local L, F, Q, W, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local l, queue, records, readers = redis.call('GET', L), redis.call('ZCARD', Q), redis.call('HLEN', W), redis.call('HLEN', M)
local floor = tonumber(redis.call('GET', F) or 0)
if not l then
  if queue + records + readers > 0 then return 'no state but ' .. queue .. ' ' .. records .. ' ' .. readers end
  return ''
end
local mode, q = string.sub(l, 1, 1), string.sub(l, 3, 3)
if mode == 'w' and readers > 0 then return 'writer and readers: ' .. l end
if mode == 'r' and readers == 0 then return 'no readers: ' .. l end
if (q == '1') ~= (queue > 0) then return 'queue flag: ' .. l .. ' but ' .. queue end
if mode == 'n' then return 'free with a queue: ' .. l end
if queue ~= records then return 'queue ' .. queue .. ' records ' .. records end
for _, owner in ipairs(redis.call('ZRANGE', Q, 0, -1)) do
  if redis.call('HEXISTS', W, owner) == 0 then return 'no record of ' .. owner end
end
local function above(token) return tonumber(token) > floor end
if mode == 'w' and above(string.match(l, '^w %d %d %S+ (%d+)')) then return 'token above the floor: ' .. l end
for _, record in ipairs(redis.call('HVALS', M)) do
  if above(string.match(record, '^%d+ (%d+)')) then return 'token above the floor: ' .. record end
end
if string.find(l, 'e+', 1, true) then return 'rounded: ' .. l end
for _, name in ipairs(KEYS) do
  if name ~= F and redis.call('EXISTS', name) == 1 and redis.call('PTTL', name) < 0 then return 'no expiry: ' .. name end
end
return ''
";

struct Player {
    owner: Owner,
    attempt: Attempt,
    seq: u64,
    token: Option<Token>,
}

struct Game {
    store: std::sync::Arc<RedisStore>,
    random: StdRng,
    players: HashMap<u64, Player>,
    next: u64,
    last_token: u64,
    handing: Handing,
}

impl Game {
    async fn call(&self, script: &'static crate::redis::Script, key: &Key, args: Vec<Vec<u8>>) -> Value {
        server(&self.store).link.call(script, self.store.inner.keys.of(key), args).await.unwrap()
    }

    async fn ask(&mut self, number: u64) {
        let player = &self.players[&number];
        let wait = match number % 5 {
            0 => Duration::ZERO,
            1 => Duration::from_millis(15),
            _ => Duration::from_secs(5),
        };
        let Player { owner, attempt, seq, .. } = player;
        let (stamp, stale_after) = (0, Duration::from_secs(1));
        let asking = calls::Asking { attempt, owner, wait: Some(wait), seq: *seq, stamp, stale_after };
        let reply = self.call(&ACQUIRE, &attempt.key, asking.args(&self.handing)).await;
        let reply = Acquired::read(&reply).unwrap();
        let last = self.last_token;
        let player = self.players.get_mut(&number).unwrap();
        match reply {
            Acquired::Free { token } => {
                assert!(token.get() > last, "{token} after {last}");
                self.last_token = token.get();
                player.token = Some(token);
            }
            Acquired::Granted { token, .. } => {
                // Handed over some time ago, or new.
                assert!(token.get() > last || player.token.is_none_or(|before| before <= token));
                self.last_token = last.max(token.get());
                player.token = Some(token);
            }
            Acquired::Queued { seq, .. } => {
                assert!(player.seq == 0 || player.seq == seq, "moved from {} to {seq}", player.seq);
                player.seq = seq;
            }
            Acquired::Busy { .. } | Acquired::Full { .. } => {
                self.players.remove(&number);
            }
            Acquired::Stale { .. } => panic!("stale"),
        }
    }

    fn pick(&mut self) -> Option<u64> {
        let mut numbers: Vec<_> = self.players.keys().copied().collect();
        numbers.sort_unstable();
        (!numbers.is_empty()).then(|| numbers[self.random.random_range(0..numbers.len())])
    }

    async fn step(&mut self, keys: &[Key]) {
        let key = &keys[self.random.random_range(0..keys.len())];
        match self.random.random_range(0..100) {
            0..35 => {
                let number = self.next;
                self.next += 1;
                let owner = Owner::new(format!("fuzz-process-{:03}.{number:011}", number % 4));
                let mode = if self.random.random_bool(0.5) { Mode::Read } else { Mode::Write };
                let lease = Duration::from_millis(self.random.random_range(5..200));
                let attempt =
                    Attempt { key: key.clone(), mode, lease, wait: Duration::ZERO, max_waiters: 12, tag: "x".into() };
                self.players.insert(number, Player { owner, attempt, seq: 0, token: None });
                self.ask(number).await;
            }
            35..50 => {
                // A poke, or the same question again.
                if let Some(number) = self.pick() {
                    self.ask(number).await;
                }
            }
            50..80 => {
                if let Some(number) = self.pick() {
                    let player = self.players.remove(&number).unwrap();
                    let args = calls::release(&player.owner, &self.handing);
                    Left::read(&self.call(&RELEASE, &player.attempt.key, args.clone()).await).unwrap();
                    let again = Left::read(&self.call(&RELEASE, &player.attempt.key, args).await).unwrap();
                    assert!(!again.found, "a second release found something");
                }
            }
            80..90 => {
                if let Some(number) = self.pick() {
                    let Player { owner, attempt, token, .. } = &self.players[&number];
                    let args = vec![owner.as_str().into(), calls::millis(attempt.lease)];
                    let reply = self.call(&RENEW, &attempt.key, args).await;
                    let renewed = Renewed::read_all(&reply, 1).unwrap()[0];
                    if matches!(renewed, Renewed::Gone { .. }) && token.is_some() {
                        self.players.remove(&number);
                    }
                }
            }
            90..93 => {
                let force = if self.random.random_bool(0.5) { Force::Now } else { Force::AfterLeases };
                let (_, token) = forced(&self.call(&FORCE, key, calls::force(force, &self.handing)).await).unwrap();
                assert!(token.get() > self.last_token);
                self.last_token = token.get();
            }
            _ => tokio::time::sleep(Duration::from_millis(self.random.random_range(0..12))).await,
        }
    }
}

#[tokio::test]
async fn random_operations_keep_the_invariants() {
    let seed: u64 = std::env::var("STOCKADE_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap());
    let world = World::start().await;
    let store = world.store().await;
    let handing = Handing { skip: false, channel: store.inner.keys.inbox_prefix() };
    let random = StdRng::seed_from_u64(seed);
    let mut game = Game { store, random, players: HashMap::new(), next: 1, last_token: 0, handing };
    let keys = [key("fuzz")];
    for step in 0..5000 {
        game.step(&keys).await;
        for key in &keys {
            let names = game.store.inner.keys.of(key);
            let mut command = vec!["EVAL", CHECK, "5"];
            command.extend(names.iter().map(String::as_str));
            let broken = world.command(&command).await;
            assert!(broken.trim().is_empty(), "STOCKADE_SEED={seed}, step {step}: {broken}");
        }
    }
    for player in std::mem::take(&mut game.players).into_values() {
        game.call(&RELEASE, &player.attempt.key, calls::release(&player.owner, &game.handing)).await;
    }
    game.store.force(&keys[0], Force::Now).await.unwrap();
    world.until_nothing_is_left().await;
}
