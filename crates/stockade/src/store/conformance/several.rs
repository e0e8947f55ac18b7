//! Several resources at once, as `lock/multi` acquires them: in one step if the store allows that, otherwise in turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rand::{Rng, seq::SliceRandom};

use super::fixture::{Fixture, LASTING, LATE, LIMIT, key, once, write};
use crate::{
    clock::Instant,
    lock::{Force, LockError, Locks, LossReason, MultiRequest, Released},
    resource::Key,
    store::{Mode, Ownership},
};

/// The locks of the `n`th process.
fn locks(fixture: &Fixture, n: usize) -> Locks {
    Locks::builder().on(Arc::clone(fixture.store(n)))
}

fn request(fixture: &Fixture, n: usize, keys: &[Key]) -> MultiRequest {
    locks(fixture, n).write_keys(keys.iter().cloned()).wait(LIMIT)
}

/// Holds one resource for another process. Nobody renews the lease.
async fn held_elsewhere(fixture: &Fixture, key: &Key) -> Arc<Ownership> {
    fixture.take(1, write(key)).await
}

pub(crate) async fn several_are_had_all_or_none(fixture: &Fixture) {
    let keys = ["one", "two", "three"].map(key);
    let other = held_elsewhere(fixture, &keys[1]).await;
    assert!(request(fixture, 0, &keys).try_acquire().await.expect("failed").is_none());
    for free in [&keys[0], &keys[2]] {
        fixture.until(free, |inspection| inspection.holders.is_empty()).await;
    }
    fixture.release(1, &other).await;

    let all = request(fixture, 0, &keys).try_acquire().await.expect("failed").expect("all are free");
    for held in &keys {
        assert!(!fixture.is_free(held, Mode::Write).await, "{held} is not held");
        let tokens: Vec<_> = fixture.inspect(held).await.holders.iter().map(|party| party.token).collect();
        let token = all.fences().of_key(held).map(|fence| fence.token()).filter(|_| fixture.shows_tokens());
        assert_eq!(tokens, [token]);
    }
    assert!(all.fences().of_key(&keys[1]).is_some_and(|fence| fence.token() > other.token));
    assert!(all.is_held() && all.remaining() > Duration::from_secs(5));
    let tokens: Vec<_> = all.tokens().collect();
    assert_eq!(all.release().await.expect("failed"), Released::Released);
    fixture.until_nothing_is_left().await;

    let again = request(fixture, 1, &keys).acquire().await.expect("not granted");
    assert!(again.tokens().zip(tokens).all(|(later, earlier)| later > earlier));
    drop(again);
}

pub(crate) async fn several_in_opposite_orders_all_come_through(fixture: &Fixture) {
    const TASKS: usize = 8;
    const ROUNDS: usize = 20;
    const RESOURCES: usize = 4;
    let counters: Arc<[AtomicU64; RESOURCES]> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..TASKS {
        let (locks, counters) = (locks(fixture, n), Arc::clone(&counters));
        tasks.spawn(async move {
            let mut named: Vec<usize> = (0..RESOURCES).collect();
            let mut added = 0;
            for _ in 0..ROUNDS {
                named.shuffle(&mut rand::rng());
                let some = &named[..rand::rng().random_range(2..=RESOURCES)];
                let keys = some.iter().map(|resource| key(&resource.to_string()));
                let held = locks.write_keys(keys).wait(LIMIT).acquire().await.expect("not granted");
                // Not one atomic step: an update in between is lost, and the sum is too low.
                let seen: Vec<_> = some.iter().map(|resource| counters[*resource].load(Ordering::Relaxed)).collect();
                tokio::task::yield_now().await;
                for (resource, seen) in some.iter().zip(seen) {
                    counters[*resource].store(seen + 1, Ordering::Relaxed);
                    added += 1;
                }
                held.release().await.expect("not released");
            }
            added
        });
    }
    let added: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum::<u64>(), added);
}

pub(crate) async fn several_do_not_overtake_who_waits(fixture: &Fixture) {
    let keys = ["first", "second"].map(key);
    let held = held_elsewhere(fixture, &keys[1]).await;
    let waiter = fixture.enqueue(0, write(&keys[1]), 1).await;
    let store = Arc::clone(fixture.store(0));
    let attempts = keys.each_ref().map(|key| once(key, Mode::Write));
    // The one step must take nothing while somebody holds or waits.
    assert!(store.try_all(&attempts).await.expect("failed").is_none());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(request(fixture, 1, &keys).acquire());
    fixture.until(&keys[1], |inspection| inspection.waiting == 2).await;
    fixture.release(1, &held).await;
    let next = waiter.granted().await;
    assert!(tasks.try_join_next().is_none());
    fixture.release(0, &next).await;
    let all = tokio::time::timeout(LIMIT, tasks.join_next()).await.expect("hangs").expect("one task");
    let all = all.expect("panicked").expect("not granted");
    assert!(all.fences().of_key(&keys[1]).is_some_and(|fence| fence.token() > next.token));
    drop(all);
}

pub(crate) async fn several_that_wait_in_vain_leave_nothing(fixture: &Fixture) {
    let keys = ["a", "b", "c", "d", "e"].map(key);
    let wait = Duration::from_millis(300);
    for busy in &keys {
        let other = held_elsewhere(fixture, busy).await;
        let since = Instant::now();
        let refused = request(fixture, 0, &keys).wait(wait).acquire().await;
        let took = since.elapsed();
        match refused.expect_err("one is held") {
            LockError::Timeout { key, waited, remaining, .. } => {
                assert_eq!(key, *busy);
                assert!(waited >= wait && waited <= took && remaining <= LASTING, "{waited:?} {remaining:?}");
            }
            other => panic!("{other:?}"),
        }
        assert!(took >= wait && took < wait + LATE, "took {took:?}");
        fixture.release(1, &other).await;
        fixture.until_nothing_is_left().await;
    }
}

pub(crate) async fn several_dropped_at_any_point_leave_nothing(fixture: &Fixture) {
    const TASKS: usize = 8;
    const ROUNDS: usize = 20;
    let keys: Vec<Key> = ["p", "q", "r", "s"].map(key).into();
    // Limits for which some requests are granted and some are not, at the present speed of this machine.
    let began = Instant::now();
    drop(request(fixture, 0, &keys[..3]).acquire().await.expect("not granted"));
    let most = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX).clamp(2_000, 1_000_000) * 4;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..TASKS {
        let (locks, mut keys) = (locks(fixture, n), keys.clone());
        tasks.spawn(async move {
            let (mut granted, mut longest) = (0, most);
            for _ in 0..ROUNDS {
                keys.shuffle(&mut rand::rng());
                let wait = Duration::from_micros(rand::rng().random_range(0..longest * 5));
                let limit = Duration::from_micros(rand::rng().random_range(0..longest));
                // The lease outlives the test, so a lock that is left behind stays visible.
                let request = locks.write_keys(keys[..3].iter().cloned()).lease(Duration::from_secs(60)).wait(wait);
                match tokio::time::timeout(limit, request.acquire()).await {
                    Ok(Ok(guard)) => {
                        granted += 1;
                        tokio::time::sleep(limit / 4).await;
                        if rand::rng().random_bool(0.5) {
                            let _ = tokio::time::timeout(limit / 8, guard.release()).await;
                        }
                    }
                    // The machine may have become slower since.
                    Ok(Err(LockError::Busy { .. } | LockError::Timeout { .. })) | Err(_) => longest += longest / 4,
                    Ok(Err(error)) => panic!("{error}"),
                }
            }
            granted
        });
    }
    let granted: u64 = tasks.join_all().await.into_iter().sum();
    assert!(granted > 0, "nothing was ever granted, so nothing was tested");
    fixture.until_nothing_is_left().await;
    let all = request(fixture, 0, &keys).try_acquire().await.expect("failed");
    assert!(all.is_some(), "something is held and not listed");
}

pub(crate) async fn the_loss_of_one_of_several_is_the_loss_of_all(fixture: &Fixture) {
    let keys = ["u", "v"].map(key);
    for lost in &keys {
        let all = request(fixture, 0, &keys).acquire().await.expect("not granted");
        let fences = all.fences();
        fixture.store(1).force(lost, Force::Now).await.expect("not forced");
        let told = tokio::time::timeout(LIMIT, all.lost()).await.expect("not told");
        // A holder whose subscription has only just begun learns of it by its next renewal, which can't say why.
        assert!(matches!(told, LossReason::Forced | LossReason::Stolen), "{told:?}");
        assert_eq!((all.loss(), all.remaining()), (Some(told), Duration::ZERO));
        assert_eq!(fences.loss(), Some(told));
        assert!(!all.is_held());
        assert_eq!(all.release().await.expect("failed"), Released::Lost);
        fixture.until_nothing_is_left().await;
    }
}

pub(crate) async fn a_loss_while_waiting_for_the_others_gives_all_up(fixture: &Fixture) {
    let mut keys = ["x", "y", "z"].map(key);
    keys.sort_by_key(|key| (key.bucket(), key.to_string()));
    let last = held_elsewhere(fixture, &keys[2]).await;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(request(fixture, 0, &keys).acquire());
    fixture.until(&keys[2], |inspection| inspection.waiting == 1).await;
    fixture.store(1).force(&keys[1], Force::Now).await.expect("not forced");
    let ended = tokio::time::timeout(LIMIT, tasks.join_next()).await.expect("hangs").expect("one task");
    match ended.expect("panicked").expect_err("one was lost") {
        LockError::Lost { key, reason: LossReason::Forced | LossReason::Stolen } => assert_eq!(key, keys[1]),
        other => panic!("{other:?}"),
    }
    assert!(last.loss().is_none(), "told only when the others were free");
    fixture.until(&keys[2], |inspection| inspection.waiting == 0).await;
    fixture.until(&keys[0], |inspection| inspection.holders.is_empty()).await;
    fixture.release(1, &last).await;
}
