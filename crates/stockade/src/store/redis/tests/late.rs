//! Commands that arrive after their attempt has failed.

use std::{slice, sync::Arc, time::Duration};

use futures_util::FutureExt;
use stockade_testbed::{Fault, Proxy};
use tokio::time::{sleep, timeout};

use super::{LIMIT, World, connected, detour::Detour, key, server, until, write};
use crate::{
    clock::Instant,
    redis::Redis,
    resource::Key,
    store::{Attempt, Force, LockError, LockStore, LossReason, Ownership, Unavailable, redis::RedisStore},
};

async fn by(detour: &Detour, command_timeout: Duration) -> Arc<RedisStore> {
    let redis = Redis::builder(detour.url()).command_timeout(command_timeout).connect().await.unwrap();
    connected(&redis).await
}

/// Runs an attempt whose command is held back while its connection ends. Returns when the attempt has failed.
async fn lose_an_acquire(store: &RedisStore, detour: &Detour, attempt: Attempt) {
    detour.hold();
    let before = detour.sent();
    let mut attempt = store.acquire(attempt);
    assert!((&mut attempt).now_or_never().is_none());
    detour.until_sent(before).await;
    detour.leave();
    let failed = timeout(LIMIT, attempt).await.expect("it hangs");
    assert!(matches!(failed, Err(LockError::Unavailable { .. })), "{failed:?}");
}

/// Longer than a test may take, so a lock that is left behind stays visible.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn an_acquire_that_arrives_when_all_that_undoes_it_has_run_is_refused() {
    let world = World::start().await;
    let detour = Detour::start(&world.server).await;
    let store = by(&detour, Duration::from_millis(250)).await;
    lose_an_acquire(&store, &detour, Attempt { lease: LONG, ..write(&key("late")) }).await;
    until("all cancels are answered", || store.inner.waiters.is_settled()).await;
    world.command(&["CONFIG", "RESETSTAT"]).await;
    detour.let_go();
    world.until_scripts_called(1).await;
    assert_eq!(world.keys().await, [""; 0], "it took a lock that nobody waits for");
    world.until_nothing_is_left().await;
    world.end_behind(detour).await;
}

#[tokio::test]
async fn an_acquire_that_arrives_after_its_first_cancel_is_undone_by_the_second() {
    let world = World::start().await;
    let detour = Detour::start(&world.server).await;
    // Long enough that the acquire still arrives in time on a busy machine.
    let store = by(&detour, Duration::from_secs(2)).await;
    world.command(&["CONFIG", "RESETSTAT"]).await;
    lose_an_acquire(&store, &detour, Attempt { lease: LONG, ..write(&key("stray")) }).await;
    // The new connection has sent the cancel, which found nothing.
    world.until_scripts_called(1).await;
    assert_eq!(world.keys().await, [""; 0]);
    detour.let_go();
    world.until_scripts_called(2).await;
    assert_eq!(world.keys().await.len(), 1, "nothing was taken, so nothing is tested");
    world.until_nothing_is_left().await;
    world.end_behind(detour).await;
}

/// A grant whose attempt was sent twice, on two connections. The detour still holds the first command back.
async fn twice_sent(detour: &Detour, store: &RedisStore, other: &RedisStore, key: &Key) -> Arc<Ownership> {
    let held = other.acquire(write(key)).await.unwrap();
    // The second command, sent after the connection was lost, is the one that is answered.
    let mut waiting = store.acquire(Attempt { lease: LONG, ..write(key) });
    assert!((&mut waiting).now_or_never().is_none());
    super::until_waiting(other, key, 1).await;
    detour.hold();
    let before = detour.sent();
    // A poll that is held back.
    let granted = async {
        let poked = async {
            detour.until_sent(before).await;
            detour.leave();
            until("another connection", || server(store).link.generation() == 2).await;
            other.release(&held).await.unwrap();
        };
        let (granted, ()) = tokio::join!(&mut waiting, poked);
        granted.unwrap()
    };
    timeout(LIMIT, granted).await.expect("not granted")
}

#[tokio::test]
async fn a_release_is_repeated_when_an_earlier_sending_of_its_acquire_may_still_arrive() {
    for is_lost in [false, true] {
        let world = World::start().await;
        let detour = Detour::start(&world.server).await;
        let store = by(&detour, Duration::from_secs(2)).await;
        let (other, key) = (world.store().await, key("twice-sent"));
        let granted = twice_sent(&detour, &store, &other, &key).await;
        // The first command would acquire the lock for nobody once another owner has it.
        let handed = store.hand_over(&granted);
        assert!(matches!(handed, Err(LockError::Unavailable { reason: Unavailable::Stale, .. })), "{handed:?}");
        if is_lost {
            other.force(&key, Force::Now).await.unwrap();
            assert_eq!(timeout(LIMIT, granted.lost()).await.expect("not told"), LossReason::Forced);
        }
        store.release(&granted).await.unwrap();
        world.command(&["CONFIG", "RESETSTAT"]).await;
        detour.let_go();
        world.until_scripts_called(1).await;
        world.until_nothing_is_left().await;
        world.end_behind(detour).await;
    }
}

#[tokio::test]
async fn a_lease_counts_from_before_its_command_was_sent() {
    const DELAY: Duration = Duration::from_millis(150);
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let redis = Redis::builder(proxy.url_for(&world.server.url())).command_timeout(Duration::from_secs(5));
    let store = connected(&redis.connect().await.unwrap()).await;
    let (lease, key) = (Duration::from_secs(10), key("slow"));
    proxy.set(Fault::Delay(DELAY));
    let sent = Instant::now();
    let held = store.acquire(Attempt { lease, ..write(&key) }).await.unwrap();
    assert!(sent.elapsed() >= DELAY * 2, "not delayed");
    assert!(held.deadline() <= sent + lease, "the answer took {:?} of the lease", sent.elapsed());
    let sent = Instant::now();
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert!(held.deadline() > sent, "not renewed");
    assert!(held.deadline() <= sent + lease, "the answer took {:?} of the lease", sent.elapsed());
    proxy.set(Fault::None);
    store.release(&held).await.unwrap();
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_grant_that_lay_on_its_way_for_its_lease_is_not_believed() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let other = world.store().await;
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let key = key("lain");
    let held = other.acquire(write(&key)).await.unwrap();
    let waiter = super::waiting(&store, write(&key));
    super::until_waiting(&other, &key, 1).await;
    // Half-way between two polls of the waiter, so that it finds the grant and no newer answer.
    sleep(Duration::from_secs(1)).await;
    proxy.set(Fault::Hole);
    other.release(&held).await.unwrap();
    // Nobody waits behind it, so no script ends its lease and sends a message.
    world.until_nothing_is_left().await;
    let next = other.acquire(write(&key)).await.unwrap();
    proxy.set(Fault::None);
    let asked = async {
        while other.inspect(&key).await.unwrap().waiting == 0 {
            assert!(!waiter.is_finished(), "it believes in a lock that is another's");
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LIMIT, asked).await.expect("it neither holds nor waits");
    assert!(next.loss().is_none());
    other.release(&next).await.unwrap();
    let late = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();
    assert!(late.token > next.token);
    store.release(&late).await.unwrap();
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}
