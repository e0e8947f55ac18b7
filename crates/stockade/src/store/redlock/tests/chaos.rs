use std::{
    ops::Range,
    slice,
    sync::{Arc, Mutex},
    time::Duration,
};

use rand::{Rng, seq::index::sample};
use stockade_testbed::{Fault, Proxy};
use tokio::{task::JoinSet, time::sleep};

use super::{RedlockStore, World, key, write};
use crate::{
    clock::Instant,
    store::{Attempt, LockError, LockStore},
};

/// A time in which a process believed that it had the lock.
#[derive(Debug)]
struct Belief {
    from: Instant,
    to: Instant,
    token: u64,
}

async fn work(store: Arc<RedlockStore>, until: Instant, beliefs: Arc<Mutex<Vec<Belief>>>) {
    let attempt = Attempt { lease: Duration::from_millis(500), wait: Duration::from_secs(2), ..write(&key("chaos")) };
    while !until.remaining().is_zero() {
        let held = match store.acquire(attempt.clone()).await {
            Ok(held) => held,
            Err(LockError::Timeout { .. } | LockError::Unavailable { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let from = Instant::now();
        let holds = Duration::from_millis(rand::rng().random_range(0..60));
        while from.elapsed() < holds {
            let _ = store.renew(slice::from_ref(&held)).await;
            sleep(Duration::from_millis(10)).await;
        }
        let to = if held.loss().is_some() { held.deadline().min(Instant::now()) } else { Instant::now() };
        beliefs.lock().unwrap().push(Belief { from, to, token: held.token.get() });
        if rand::rng().random_bool(0.8) {
            let _ = store.release(&held).await;
        } else {
            store.release_detached(held);
        }
    }
}

async fn pause(millis: Range<u64>) {
    let pause = rand::rng().random_range(millis);
    sleep(Duration::from_millis(pause)).await;
}

/// Breaks a random minority again and again, in every way that loses no data.
async fn harm(world: &World, proxies: &[Vec<Proxy>], until: Instant) -> u32 {
    let mut harmed = 0;
    while !until.remaining().is_zero() {
        let some = sample(&mut rand::rng(), world.servers.len(), rand::rng().random_range(1..=2)).into_vec();
        let frozen = rand::rng().random_bool(0.3);
        for server in &some {
            if frozen {
                world.servers[*server].pause().unwrap();
                continue;
            }
            for proxies in proxies {
                let proxy = &proxies[*server];
                match rand::rng().random_range(0..4) {
                    0 => proxy.set(Fault::Delay(Duration::from_millis(rand::rng().random_range(1..400)))),
                    1 => proxy.set(Fault::Hole),
                    2 => proxy.set(Fault::DropReplies),
                    _ => proxy.reset_connections(),
                }
            }
        }
        pause(20..400).await;
        for server in &some {
            if frozen {
                world.servers[*server].resume().unwrap();
            }
            proxies.iter().for_each(|proxies| proxies[*server].set(Fault::None));
        }
        harmed += 1;
        pause(0..100).await;
    }
    harmed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_believe_at_a_time_whatever_becomes_of_a_minority() {
    let world = World::start(5).await;
    let (mut stores, mut proxies) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (store, own) = world.store_behind_proxies().await;
        stores.push(store);
        proxies.push(own);
    }
    let until = Instant::now() + Duration::from_secs(10);
    let beliefs = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        tasks.spawn(work(Arc::clone(&stores[n % 3]), until, Arc::clone(&beliefs)));
    }
    let harmed = harm(&world, &proxies, until).await;
    tasks.join_all().await;
    let mut beliefs = std::mem::take(&mut *beliefs.lock().unwrap());
    beliefs.sort_by_key(|belief| belief.from);
    assert!(beliefs.len() > 20 && harmed > 10, "{} grants, {harmed} faults", beliefs.len());
    for pair in beliefs.windows(2) {
        assert!(pair[0].to <= pair[1].from, "two at a time: {pair:?}");
        assert!(pair[0].token < pair[1].token, "tokens out of order: {pair:?}");
    }
    world.until_all_are_free().await;
    world.end_behind(proxies).await;
}
