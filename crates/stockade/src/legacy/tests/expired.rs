//! Clients that take over an expired lock.

use std::time::Duration;

use futures_util::future::join_all;

use super::support::{KEY, World, is_over, lock, past, times};
use crate::{legacy::Unit, lock::Released};

#[tokio::test]
async fn deleting_what_expired_lets_two_in() {
    let world = World::start().await;
    world.command(&["SET", KEY, &past()]).await;
    let mut inside = 0;
    // Both clients have read the time and found it expired. Then one acts after the other.
    let seen = [world.value().await, world.value().await];
    for (seen, time) in seen.iter().zip(times()) {
        assert!(is_over(seen));
        world.command(&["DEL", KEY]).await;
        inside += world.command(&["SETNX", KEY, &time]).await.parse::<u32>().unwrap();
    }
    assert_eq!(inside, 2, "each deleted and set, the second what the first had just taken");
}

#[tokio::test]
async fn exchanging_what_expired_lets_one_in_and_moves_its_time() {
    let world = World::start().await;
    world.command(&["SET", KEY, &past()]).await;
    let mut inside = 0;
    let seen = [world.value().await, world.value().await];
    for (seen, time) in seen.iter().zip(times()) {
        assert!(is_over(seen));
        let before = world.command(&["GETSET", KEY, &time]).await;
        inside += u32::from(is_over(&before));
    }
    assert_eq!(inside, 1);
    assert_eq!(world.value().await, times()[1], "the loser has moved the holder's time");
}

#[tokio::test]
async fn of_many_who_find_it_expired_one_gets_it_and_can_release_it() {
    const CLIENTS: usize = 5;
    let world = World::start().await;
    let clients = join_all((0..CLIENTS).map(|_| world.locks())).await;
    for _ in 0..60 {
        world.command(&["SET", KEY, &past()]).await;
        // Different leases: the time of a loser would let others in early, or keep the lock from being released.
        let tries = clients
            .iter()
            .zip([1, 60, 20, 300, 5])
            .map(|(locks, lease)| locks.lock(KEY).lease(Duration::from_secs(lease)).try_acquire());
        let mut held: Vec<_> = join_all(tries).await.into_iter().filter_map(Result::unwrap).collect();
        let Some(guard) = held.pop() else { panic!("nobody got it") };
        assert!(held.is_empty(), "{} more got it", held.len());
        let left = Unit::Seconds.left(world.value().await.parse().unwrap()).unwrap();
        assert!(guard.remaining() <= left && left <= guard.remaining() + Duration::from_secs(3), "moved to {left:?}");
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        assert_eq!(world.command(&["EXISTS", KEY]).await, "0");
    }
}

#[tokio::test]
async fn a_crashed_holder_is_taken_over_when_its_time_is_over() {
    let world = World::start().await;
    for unit in [Unit::Seconds, Unit::Millis] {
        let locks = world.locks().await.unit(unit);
        let crashed = unit.end_of(Duration::from_secs(1));
        world.command(&["SET", KEY, &crashed.to_string()]).await;
        assert!(lock(&locks).try_acquire().await.unwrap().is_none());
        let guard = lock(&locks).acquire().await.unwrap();
        assert!(unit.now() > crashed);
        let mine: u64 = world.value().await.parse().unwrap();
        assert!(mine > unit.now() + unit.lease(Duration::from_secs(50)), "{mine}");
        assert!(guard.is_held() && guard.remaining() > Duration::from_secs(50) && guard.key() == KEY);
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        world.until_free().await;
    }
}
