use std::{slice, time::Duration};

use super::{LIMIT, RedlockStore, World, granted, key, once, reconnected, write};
use crate::{
    redis::text,
    resource::Key,
    store::{
        Attempt, LockError, LockStore, Owner, Token,
        redlock::{replies::Taken, scripts::FENCE},
    },
};
use rand::{Rng, seq::index::sample};
use stockade_testbed::RedisServer;
use tokio::time::Instant;

/// Makes a random minority refuse, so that a random majority decides. Returns the minority.
async fn hinder(world: &World, name: &str, servers: usize) -> Vec<usize> {
    let some = rand::rng().random_range(0..=servers / 2);
    let hindered = sample(&mut rand::rng(), servers, some).into_vec();
    for server in &hindered {
        world.command(*server, &["SET", name, "in the way"]).await;
    }
    hindered
}

async fn clear(world: &World, name: &str, hindered: &[usize]) {
    for server in hindered {
        world.command(*server, &["DEL", name]).await;
    }
}

async fn tokens_increase_over_random_majorities(servers: usize, grants: usize) {
    let world = World::start(servers).await;
    let stores = [world.store().await, world.store().await];
    let key = key("majorities");
    let name = stores[0].inner.keys.of(&key).lock;
    let mut last = 0;
    let mut rewritten = 0;
    for n in 0..grants {
        // Sometimes the same process acquires twice in a row: the other one must then find the token on the servers.
        let store = &stores[rand::rng().random_range(0..2)];
        // Some floors are ahead of the next proposal, as if other clocks or other resources had raised them.
        if n % 7 == 0 {
            let floor = stores[0].inner.keys.floor(key.bucket());
            let server = rand::rng().random_range(0..servers);
            let ahead = last + rand::rng().random_range(0..200_000);
            if last > 0 && world.command(server, &["GET", &floor]).await.parse::<u64>().unwrap_or(0) < ahead {
                world.command(server, &["SET", &floor, &ahead.to_string()]).await;
                rewritten += 1;
            }
        }
        let hindered = hinder(&world, &name, servers).await;
        let held = granted(store, write(&key)).await;
        assert!(held.token.get() > last, "{} after {last}", held.token);
        last = held.token.get();
        store.release(&held).await.unwrap();
        clear(&world, &name, &hindered).await;
    }
    assert!(rewritten > grants / 20, "nothing was ever ahead");
    world.end().await;
}

#[tokio::test]
async fn tokens_of_three_servers_increase_over_random_majorities() {
    tokens_increase_over_random_majorities(3, 2000).await;
}

#[tokio::test]
async fn tokens_of_five_servers_increase_over_random_majorities() {
    tokens_increase_over_random_majorities(5, 1000).await;
}

/// Shows why a counter on each server is not enough. Unless the highest counter of a quorum is written back, the next
/// quorum may give the same token again.
#[tokio::test]
async fn the_highest_of_a_quorum_of_counters_repeats() {
    let servers = RedisServer::start_many(3).await.unwrap();
    let (mut last, mut repeated) = (0, 0);
    for _ in 0..500 {
        let mut highest = 0;
        for server in sample(&mut rand::rng(), 3, 2) {
            highest = highest.max(servers[server].command(&["INCR", "token"]).await.unwrap().parse::<u64>().unwrap());
        }
        repeated += u32::from(highest <= last);
        last = highest;
    }
    assert!(repeated > 0, "then there is no need to write anything back");
}

async fn fence(store: &RedlockStore, key: &Key, owner: &Owner, token: Token) -> Vec<Taken> {
    let names = store.inner.keys.of(key);
    let mut answers = Vec::new();
    for node in &store.inner.nodes {
        let args = vec![owner.as_str().into(), token.to_string().into_bytes()];
        let reply = node.link.call(&FENCE, vec![names.lock.clone(), names.floor.clone()], args).await.unwrap();
        assert!(text(&reply).is_some());
        answers.push(Taken::read(&reply).unwrap());
    }
    answers
}

#[tokio::test]
async fn an_owner_that_slept_past_its_lease_can_take_no_token() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("slept");
    let lease = Duration::from_millis(200);
    let first = granted(&store, Attempt { lease, ..write(&key) }).await;
    let second = granted(&store, write(&key)).await;
    // A server on which the first lease ended a moment later gets the second owner's value by an extension.
    let name = store.inner.keys.of(&key).lock;
    for server in 0..3 {
        let limit = Instant::now() + LIMIT;
        while world.command(server, &["GET", &name]).await != second.owner.as_str() {
            assert!(Instant::now() < limit, "server {server} never had it");
            let _ = store.renew(slice::from_ref(&second)).await;
        }
    }
    // The first owner wakes with a token that it chose before it slept: the second owner's token, or a higher one.
    for token in [second.token.get(), second.token.get() + 1_000_000] {
        let answers = fence(&store, &key, &first.owner, Token::new(token).unwrap()).await;
        assert!(answers.iter().all(|taken| matches!(taken, Taken::Gone { .. })), "{token} was taken: {answers:?}");
    }
    store.release(&second).await.unwrap();
    let third = granted(&store, write(&key)).await;
    assert!(third.token > second.token);
    store.release(&third).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn an_owner_takes_a_token_once_and_only_above_the_floor() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("floor");
    let held = store.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    for (token, taken) in [(held.token.get(), false), (held.token.get() - 1, false), (held.token.get() + 5, true)] {
        let answers = fence(&store, &key, &held.owner, Token::new(token).unwrap()).await;
        assert!(answers.iter().all(|answer| matches!(answer, Taken::Fenced { .. }) == taken), "{token}: {answers:?}");
    }
    store.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn floors_ahead_of_the_clock_on_a_minority_are_passed_too() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("ahead");
    let floor = store.inner.keys.floor(key.bucket());
    let ahead = 8_000_000_000_000_000_u64;
    world.command(1, &["SET", &floor, &ahead.to_string()]).await;
    // Repeated, since chance decides whether the floor that is ahead is among the first two to answer.
    let mut passed = false;
    for _ in 0..200 {
        let held = store.acquire(once(&key)).await.unwrap();
        passed |= held.token.get() > ahead;
        store.release(&held).await.unwrap();
        world.until_all_are_free().await;
        if passed {
            break;
        }
    }
    assert!(passed);
    let other = world.store().await;
    let held = other.acquire(once(&key)).await.unwrap();
    assert!(held.token.get() > ahead, "written to a quorum, it is seen by everybody");
    other.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn tokens_that_are_used_up_are_an_error() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("used-up");
    store.seed(&key, Token::MAX).await.unwrap();
    let refused = store.acquire(once(&key)).await;
    assert!(matches!(refused, Err(LockError::Unavailable { .. })), "{refused:?}");
    world.until_all_are_free().await;
    world.end().await;
}

#[tokio::test]
async fn servers_that_come_back_empty_are_told_the_floors_before_they_grant() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("seeded");
    let ahead = Token::new(8_000_000_000_000_000).unwrap();
    store.seed(&key, ahead).await.unwrap();
    for server in &world.servers {
        server.restart().await.unwrap();
    }
    reconnected(&store, &[0, 1, 2]).await;
    // Another process, which has never seen that token.
    let other = world.store().await;
    let held = other.acquire(once(&key)).await.unwrap();
    assert!(held.token > ahead);
    other.renew(slice::from_ref(&held)).await.unwrap();
    other.release(&held).await.unwrap();
    world.end().await;
}
