//! Which changes of a resource's state an owner can make, and which others can't.

use std::{slice, sync::Arc, time::Duration};

use stockade_testbed::{Fault, Proxy};
use tokio::task::JoinSet;

use super::{World, asked, connected, key, read, server, until_waiting, write};
use crate::{
    redis::Redis,
    resource::Key,
    store::{
        Attempt, Force, LockError, LockStore, Owner, Ownership, Released, Token,
        redis::{
            RedisStore,
            commands::{
                calls,
                replies::{Acquired, Left, Renewed},
            },
            scripts::{RELEASE, RENEW},
        },
    },
};

const FOREIGN: &str = "foreign-process-.00000000000";

async fn release(store: &RedisStore, key: &Key, owner: &Owner) -> bool {
    let (keys, server) = (&store.inner.keys, server(store));
    let args = calls::release_args(owner, &server.handing(keys, key.bucket()));
    Left::read(&server.link.call(&RELEASE, keys.of(key), args).await.unwrap()).unwrap().found
}

async fn renew(store: &RedisStore, key: &Key, owner: &Owner, token: Token) -> Renewed {
    let keys = store.inner.keys.renewed(key, false);
    let args = vec![calls::renewed(owner, token, Duration::from_secs(100))];
    Renewed::read_all(&server(store).link.call(&RENEW, keys, args).await.unwrap(), 1).unwrap()[0]
}

/// The contents of the keys, and when the state expires, in ms.
async fn state(world: &World, names: &[String]) -> (String, i64) {
    let mut dump = String::new();
    for name in names {
        dump += &world.command(&["DUMP", name]).await;
    }
    (dump, world.command(&["PEXPIRETIME", &names[0]]).await.trim().parse().unwrap())
}

#[tokio::test]
async fn neither_release_nor_renewal_of_another_owner_changes_anything() {
    let world = World::start().await;
    let store = world.store().await;
    let foreign = Owner::new(FOREIGN.to_owned());
    for attempt in [write(&key("mine")), read(&key("ours"))] {
        let key = attempt.key.clone();
        let held = store.acquire(attempt).await.unwrap();
        let names = store.inner.keys.of(&key);
        let before = state(&world, &names).await;
        assert!(!release(&store, &key, &foreign).await);
        assert!(matches!(renew(&store, &key, &foreign, held.token).await, Renewed::Gone { .. }));
        let after = state(&world, &names).await;
        assert_eq!(after.0, before.0);
        // Rounded up where it was rounded down.
        assert!((0..=1).contains(&(after.1 - before.1)), "{} {}", before.1, after.1);
        store.renew(slice::from_ref(&held)).await.unwrap();
        assert!(held.loss().is_none());
        // Others can't touch its queue either.
        let mut waiter = store.acquire(write(&key));
        assert!(futures_util::FutureExt::now_or_never(&mut waiter).is_none());
        until_waiting(&store, &key, 1).await;
        assert!(!release(&store, &key, &foreign).await);
        until_waiting(&store, &key, 1).await;
        drop(waiter);
        until_waiting(&store, &key, 0).await;
        assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    }
    world.end().await;
}

#[tokio::test]
async fn an_acquire_that_is_sent_again_is_the_same_ownership() {
    let world = World::start().await;
    let store = world.store().await;
    for attempt in [write(&key("again")), read(&key("again-read"))] {
        let owner = Owner::new(FOREIGN.to_owned());
        let first = match asked(&store, &attempt, &owner, 0).await {
            Acquired::Free { token } | Acquired::Granted { token, .. } => token,
            other => panic!("{other:?}"),
        };
        for _ in 0..3 {
            let Acquired::Granted { token, x, now, .. } = asked(&store, &attempt, &owner, 0).await else {
                panic!("another")
            };
            assert_eq!(token, first, "a token is minted once");
            assert!(x - now <= 60_000_000);
        }
        // One release frees the resource, however often the owner acquired it.
        assert!(release(&store, &attempt.key, &owner).await);
        assert!(!release(&store, &attempt.key, &owner).await);
        assert_eq!(world.keys().await, [""; 0]);
    }
    world.end().await;
}

/// The network held a question up, and it arrives when its attempt has held the resource and another one after that.
#[tokio::test]
async fn a_grant_that_ended_is_not_renewed_as_a_later_grant_to_its_owner() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    for attempt in [write(&key("late-question")), read(&key("late-question-read"))] {
        let (key, lease) = (&attempt.key, Duration::from_millis(100));
        let held = store.acquire(Attempt { lease, ..attempt.clone() }).await.unwrap();
        world.until_passed(Duration::from_millis(100)).await;
        let between = other.acquire(write(key)).await.unwrap();
        other.release(&between).await.unwrap();
        let Acquired::Free { token } = asked(&store, &attempt, &held.owner, 0).await else { panic!("not free") };
        assert!(held.token < between.token && between.token < token);
        store.renew(slice::from_ref(&held)).await.unwrap();
        assert!(held.loss().is_some(), "it holds again, with a token from before another holder");
        assert!(matches!(renew(&store, key, &held.owner, held.token).await, Renewed::Gone { .. }));
        assert!(store.downgrade(&held).await.is_err());
        assert!(matches!(renew(&store, key, &held.owner, token).await, Renewed::Extended { .. }));
        assert!(release(&store, key, &held.owner).await);
    }
    world.end().await;
}

#[tokio::test]
async fn a_question_from_the_queue_moves_nobody() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("patience");
    let held = store.acquire(write(&key)).await.unwrap();
    let owner = |n: u32| Owner::new(format!("foreign-process-.{n:011}"));
    let mut places = Vec::new();
    for n in 0..3 {
        let Acquired::Queued { seq, .. } = asked(&store, &write(&key), &owner(n), 0).await else {
            panic!("not queued")
        };
        places.push(seq);
    }
    assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
    for n in [2, 0, 1] {
        let Acquired::Queued { seq, .. } = asked(&store, &write(&key), &owner(n), 0).await else {
            panic!("not queued")
        };
        assert_eq!(seq, places[n as usize]);
    }
    until_waiting(&store, &key, 3).await;
    for n in 0..3 {
        assert!(release(&store, &key, &owner(n)).await);
    }
    store.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn the_state_lives_as_long_as_the_lease_and_no_longer() {
    let world = World::start().await;
    let store = world.store().await;
    let lease = Duration::from_secs(300);
    let key = key("ttl");
    let name = store.inner.keys.of(&key).remove(0);
    let left = async || -> i64 { world.command(&["PTTL", &name]).await.trim().parse().unwrap() };
    let held = store.acquire(Attempt { lease, ..write(&key) }).await.unwrap();
    assert!((290_000..=300_000).contains(&left().await));
    world.command(&["PEXPIRE", &name, "250000"]).await;
    store.renew(slice::from_ref(&held)).await.unwrap();
    // Rounded up to milliseconds.
    assert!((290_000..=300_001).contains(&left().await), "a renewal begins a whole lease");
    store.release(&held).await.unwrap();
    assert_eq!(left().await, -2, "absent");
    world.end().await;
}

/// No writer ever waits, so only the next reader can find the records of the dead ones.
#[tokio::test]
async fn a_reader_that_died_is_found_by_the_next_reader() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("dead-readers");
    let records = store.inner.keys.of(&key).remove(4);
    let count = async || -> u64 { world.command(&["HLEN", &records]).await.trim().parse().unwrap() };
    let first = store.acquire(read(&key)).await.unwrap();
    // Together, so that none is over before the last is there.
    let lease = Duration::from_millis(500);
    let brief = || store.acquire(Attempt { lease, ..read(&key) });
    futures_util::future::try_join_all((0..5).map(|_| brief())).await.unwrap();
    assert_eq!(count().await, 6);
    world.until_passed(lease).await;
    let last = store.acquire(read(&key)).await.unwrap();
    assert_eq!(count().await, 2, "the first and the last");
    for reader in [first, last] {
        assert_eq!(store.release(&reader).await.unwrap(), Released::Released);
    }
    world.end().await;
}

/// More readers than one script serves.
const READERS: u64 = 600;

/// That many readers, on their way into the queue.
fn queued(store: &Arc<RedisStore>, key: &Key) -> JoinSet<Result<Arc<Ownership>, LockError>> {
    let attempts = (0..READERS).map(|_| (Arc::clone(store), read(key)));
    attempts.map(|(store, attempt)| async move { store.acquire(attempt).await }).collect()
}

#[tokio::test]
async fn readers_behind_a_silent_one_are_served_by_the_process_that_released() {
    let world = World::start().await;
    let holder = world.store().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let far = Redis::builder(proxy.url_for(&world.server.url())).command_timeout(Duration::from_secs(10));
    let store = connected(&far.connect().await.unwrap()).await;
    let key = key("silent-readers");
    let held = holder.acquire(write(&key)).await.unwrap();
    let mut readers = queued(&store, &key);
    until_waiting(&holder, &key, READERS).await;
    // Its connection is there and counts as a receiver, but nobody asks for more.
    proxy.set(Fault::Hole);
    holder.release(&held).await.unwrap();
    until_waiting(&holder, &key, 0).await;
    proxy.set(Fault::None);
    while let Some(granted) = readers.join_next().await {
        let _ = store.release(&granted.unwrap().unwrap()).await;
    }
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn more_readers_than_one_script_serves_are_all_let_in() {
    let world = World::start().await;
    let holder = world.store().await;
    // So many attempts at once are slow on a busy machine.
    let patient = Redis::builder(world.server.url()).command_timeout(Duration::from_secs(10));
    let store = connected(&patient.connect().await.unwrap()).await;
    let key = key("many-readers");
    for forced in [false, true] {
        let held = holder.acquire(write(&key)).await.unwrap();
        let mut readers = queued(&store, &key);
        until_waiting(&holder, &key, READERS).await;
        world.command(&["CONFIG", "RESETSTAT"]).await;
        let began = tokio::time::Instant::now();
        if forced {
            holder.force(&key, Force::Now).await.unwrap();
        } else {
            holder.release(&held).await.unwrap();
        }
        let mut inside = Vec::new();
        while let Some(granted) = readers.join_next().await {
            inside.push(granted.unwrap().unwrap());
        }
        let scripts = world.server.calls_of("evalsha").await.unwrap();
        assert!(scripts > READERS / 256, "one script kept all others waiting: {scripts}");
        // With polls alone, one every two seconds, the others would be granted much later.
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert_eq!(holder.inspect(&key).await.unwrap().holders.len() as u64, READERS);
        futures_util::future::try_join_all(inside.iter().map(|reader| store.release(reader))).await.unwrap();
        world.until_nothing_is_left().await;
    }
    world.end().await;
}
